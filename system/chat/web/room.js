// What a room has beside messages: its rules, what is pinned, reactions, and deletions.
const signs = { heart: "❤️", laugh: "😂", clap: "👏", wow: "😮", sad: "😢", fire: "🔥" };
let settings = {};

const itemOf = (offset) => $("messages").querySelector(`[data-offset="${Number(offset)}"]`);

function erase(item) {
  item.classList.add("notice");
  item.replaceChildren(element("span", "deleted by a moderator"));
}

Object.assign(hear, {
  settings(m) {
    settings = m;
    const rules = [
      m.slow && `a message every ${m.slow} s`, m.followers && "followers only", m.subscribers && "subscribers only",
      m.emotes && "emoji only", m.unique && "nothing twice", m.delay && `shown after ${m.delay} s`,
    ].filter(Boolean);
    $("rules").textContent = rules.join(", ");
    $("rules").hidden = !rules.length;
  },
  pinned(m) {
    $("pinned").replaceChildren(...(m.message ? message(m.message.name, m.message.text).childNodes : []));
    $("pinned").hidden = !m.message;
  },
  deleted(m) {
    for (const item of m.offsets.map(itemOf)) if (item) erase(item);
  },
  reactions(m) {
    for (const [kind, count] of Object.entries(m.counts)) {
      const total = Object.hasOwn(signs, kind) && $("react").querySelector(`[value="${kind}"] span`);
      if (total) total.textContent = Number(total.textContent) + count;
    }
  },
});

for (const [kind, sign] of Object.entries(signs)) {
  const button = element("button", sign + " ");
  button.value = kind;
  button.setAttribute("aria-label", kind);
  button.append(element("span", ""));
  button.onclick = () => tell({ type: "react", kind });
  $("react").append(button);
}
