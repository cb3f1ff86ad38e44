// What the analysis finds: totals and summaries, pushed, and asked for once after joining.
let summarised = 0;

hear.totals = (m) => {
  const all = $("totals");
  all.hidden = false;
  for (const [label, count] of Object.entries(m.labels)) {
    let item = all.querySelector(`[data-label="${CSS.escape(label)}"]`);
    if (!item) {
      item = element("div", "");
      item.dataset.label = label;
      item.append(element("dt", label), element("dd", ""));
      all.append(item);
    }
    item.lastChild.textContent = count;
  }
};

hear.summary = (m) => {
  if (m.next < summarised || !m.text && !m.lines.length) return;
  summarised = m.next;
  const box = $("summary");
  box.hidden = false;
  box.querySelector("p").textContent = m.text;
  box.querySelector("ul").replaceChildren(...m.lines.map((line) => {
    const item = message(line.name, line.text);
    item.dataset.offset = line.offset;
    return item;
  }));
};

const joinedBefore = hear.joined;
hear.joined = (m) => {
  joinedBefore(m);
  ask(`/api/streams/${encodeURIComponent(stream)}/analysis`).then(({ totals, summary }) => {
    if (totals.next) hear.totals(totals);
    if (summary) hear.summary(summary);
  }).catch(complain);
};

// A message that is taken back is in no summary either; a text may quote it.
const deletedBefore = hear.deleted;
hear.deleted = (m) => {
  deletedBefore(m);
  for (const offset of m.offsets) {
    if (offset < summarised) $("summary").querySelector("p").textContent = "";
    $("summary").querySelector(`[data-offset="${Number(offset)}"]`)?.remove();
  }
};
