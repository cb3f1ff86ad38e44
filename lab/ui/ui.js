// The page of a run under way replaces its parts as the server sends them. All
// other pages, and this one too, say everything without a script.
"use strict";
(() => {
  const page = document.querySelector("[data-events]");
  if (!page) return;
  const note = document.getElementById("connection");
  const source = new EventSource(page.dataset.events);
  source.addEventListener("open", () => { note.textContent = "Live."; });
  source.addEventListener("error", () => { note.textContent = "Not live: the connection is lost. These are the last figures that came."; });
  source.addEventListener("part", (event) => {
    const part = JSON.parse(event.data);
    const element = document.getElementById(part.name);
    if (element) element.innerHTML = part.html;
  });
  source.addEventListener("end", () => { source.close(); location.reload(); });
})();
