// Ranges and modules: a click or Enter on a part of the picture zooms to it and filters the table by it. Arrow keys
// lead from part to part, Escape shows all. A row of the table marks its part.

class Icicle {
  constructor(svg) {
    this.svg = svg;
    const block = svg.closest(".of-steady, .of-whole, #ranges");
    this.details = block.querySelector("details.numbers");
    this.search = block.querySelector(".table input");
    const share = (node, name) => parseFloat(node.getAttribute(name));
    this.nodes = [...svg.querySelectorAll("[data-path]")].map((node) => {
      const [left, width, top] = ["x", "width", "y"].map((name) => share(node, name));
      const label = node.querySelector("text");
      return { node, left, width, top, label, name: label.textContent, path: node.dataset.path };
    });
    if (!this.nodes.length) return;
    svg.setAttribute("tabindex", 0);
    svg.setAttribute("role", "application");
    svg.addEventListener("click", ({ target }) => this.open(this.nodes.findIndex(({ node }) => node === target.closest("[data-path]"))));
    svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.fit()).observe(svg);
    const table = block.querySelector("table");
    const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.dataset.name === "path");
    table.tBodies[0].addEventListener("pointerover", ({ target }) => this.mark(this.withPath(target.closest("tr").cells[at].textContent)));
  }

  withPath(path) {
    return this.nodes.findIndex((node) => node.path === path);
  }

  mark(number) {
    this.chosen = number;
    this.nodes.forEach(({ node }, i) => node.classList.toggle("chosen", i === number));
  }

  key(event) {
    const { chosen = -1 } = this;
    const at = nextPart(this.nodes, chosen, event.key);
    if (at < 0 && !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    if (event.key === "Escape") this.zoom({ left: 0, width: 100 });
    else if (event.key === "Enter") this.open(chosen);
    else {
      this.mark(at);
      this.svg.setAttribute("aria-label", this.nodes[at].node.querySelector("title").textContent);
    }
  }

  // Zoom to a part, or to all if it is the one that is seen; filter the table by it.
  open(number) {
    if (number < 0) return;
    const { path } = this.nodes[number];
    const again = this.opened === number;
    this.opened = again ? -1 : number;
    this.mark(number);
    this.zoom(again ? { left: 0, width: 100 } : this.nodes[number]);
    this.details.open = true;
    if (!this.search) return;
    this.search.value = again ? "" : path;
    this.search.dispatchEvent(new Event("input"));
  }

  zoom({ left, width }) {
    for (const part of this.nodes) {
      const [from, wide] = zoomed(part, left, width);
      part.node.setAttribute("x", `${from}%`);
      part.node.setAttribute("width", `${wide}%`);
    }
    this.fit();
  }

  // A name that does not fit is shortened: of modules, such as layers.3, the end tells them apart.
  fit() {
    if (!this.svg.getBoundingClientRect().width) return; // the picture of the other part is not seen
    for (const { label, name } of this.nodes) label.textContent = name;
    const fitting = this.nodes.map(({ label, name, node }) => {
      const room = node.width.baseVal.value - 2 * label.x.baseVal[0].value - 2;
      return Math.floor((name.length * room) / Math.max(label.getComputedTextLength(), 1));
    });
    this.nodes.forEach(({ label, name }, i) => {
      const kept = fitting[i] - 1;
      if (fitting[i] >= name.length) return;
      if (kept < 1) label.textContent = "";
      else label.textContent = name.includes(".") ? "…" + name.slice(-kept) : name.slice(0, kept) + "…";
    });
  }
}

// Left end and width of a part, in percent, where a part from `left` of this width fills the picture. What lies
// around that part fills the picture, too.
function zoomed(part, left, width) {
  const [from, to] = [part.left, part.left + part.width].map((edge) => ((edge - left) * 100) / width);
  return from <= 0 && to >= 100 ? [0, 100] : [from, to - from];
}

// The part to which an arrow key leads: the one beside this one, below it or around it; -1 for none.
function nextPart(nodes, now, key) {
  if (now < 0) return key.startsWith("Arrow") ? 0 : -1;
  const { left, width, top } = nodes[now];
  const below = (other) => other.top > top && other.left >= left - 1e-6 && other.left < left + width;
  const beside = nodes.flatMap((other, i) => (other.top === top ? [i] : []));
  const at = beside.indexOf(now);
  const found = {
    ArrowLeft: beside[at - 1],
    ArrowRight: beside[at + 1],
    ArrowDown: nodes.findIndex(below),
    ArrowUp: nodes.findLastIndex((other) => other.top < top && other.left <= left + 1e-6 && other.left + other.width > left),
  }[key];
  return found ?? -1;
}

for (const svg of document.querySelectorAll(".icicle")) new Icicle(svg);
