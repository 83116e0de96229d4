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
  table.tBodies[0].addEventListener("pointerover", (event) => {
    const row = event.target.closest("tr");
    const path = row.cells[at].textContent;
    for (const node of nodes) node.classList.toggle("chosen", node.dataset.path === path);
  });
}
