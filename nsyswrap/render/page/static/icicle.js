// Ranges and modules: a click on a part of the picture filters the table, a row of the table marks its part.

for (const part of document.querySelectorAll("#ranges")) {
  const table = part.querySelector("table");
  const search = part.querySelector(".table input");
  const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.dataset.name === "path");
  const nodes = [...part.querySelectorAll("[data-path]")];

  function show(path) {
    if (!search) return;
    search.value = search.value === path ? "" : path;
    search.dispatchEvent(new Event("input"));
  }

  for (const node of nodes) {
    node.addEventListener("click", () => {
      part.querySelector("details.numbers").open = true;
      show(node.dataset.path);
    });
  }
  // A name that does not fit is shortened: of modules, such as layers.3, the end tells them apart.
  const names = [...part.querySelectorAll(".icicle text")].map((label) => [label, label.textContent]);
  function fit() {
    for (const [label, name] of names) label.textContent = name;
    const fitting = names.map(([label, name]) => {
      const room = label.parentNode.width.baseVal.value - 2 * label.x.baseVal[0].value - 2;
      return Math.floor((name.length * room) / Math.max(label.getComputedTextLength(), 1));
    });
    names.forEach(([label, name], i) => {
      const kept = fitting[i] - 1;
      if (fitting[i] >= name.length) return;
      if (kept < 1) label.textContent = "";
      else label.textContent = name.includes(".") ? "…" + name.slice(-kept) : name.slice(0, kept) + "…";
    });
  }
  const picture = part.querySelector(".icicle");
  if (picture) new ResizeObserver(fit).observe(picture);

  table.tBodies[0].addEventListener("pointerover", (event) => {
    const row = event.target.closest("tr");
    const path = row.cells[at].textContent;
    for (const node of nodes) node.classList.toggle("chosen", node.dataset.path === path);
  });
}
