// Ranks by steps: what is said of the cell that is pointed at or chosen by keys, read from the table of numbers.

class Steps {
  constructor(article) {
    this.range = article.dataset.range;
    this.picture = article.querySelector(".strips");
    this.readout = article.querySelector(".readout");
    this.strips = [...this.picture.children];
    const table = article.querySelector("table");
    this.names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    this.columns = [...table.tBodies[0].rows].map((row) => [...row.cells]); // before anybody sorts them
    this.mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    Object.entries({ class: "mark", width: 1, height: 1 }).forEach((pair) => this.mark.setAttribute(...pair));
    for (const kind of ["pointermove", "pointerdown"]) this.picture.addEventListener(kind, (event) => this.point(event));
    this.picture.addEventListener("keydown", (event) => this.key(event));
  }

  point(event) {
    const strip = event.target.closest(".strip");
    if (!strip) return;
    const box = strip.lastChild.getBoundingClientRect();
    this.choose(this.strips.indexOf(strip), Math.floor(((event.clientX - box.left) / box.width) * this.columns.length));
  }

  key(event) {
    const { rank = 0, column = -1 } = this;
    const last = this.columns.length - 1;
    const places = {
      ArrowLeft: [rank, column - 1],
      ArrowRight: [rank, column + 1],
      ArrowUp: [rank - 1, column],
      ArrowDown: [column < 0 ? 0 : rank + 1, column],
      Home: [rank, 0],
      End: [rank, last],
    };
    if (!places[event.key]) return;
    event.preventDefault();
    this.choose(...places[event.key]);
  }

  choose(rank, column) {
    this.rank = Math.min(Math.max(rank, 0), this.strips.length - 1);
    this.column = Math.min(Math.max(column, 0), this.columns.length - 1);
    this.mark.setAttribute("x", this.column);
    this.strips[this.rank].lastChild.append(this.mark);
    this.readout.textContent = this.said();
  }

  said() {
    const [first, last, median, ...own] = this.columns[this.column];
    const cell = own[this.rank];
    const several = first.textContent !== last.textContent;
    const steps = several ? `${first.textContent} to ${last.textContent} (mean)` : first.textContent;
    const more = Math.round((rawValue(cell) / rawValue(median) - 1) * 100);
    const against = Number.isFinite(more) ? ` (${more < 0 ? "−" : "+"}${Math.abs(more)} %)` : "";
    const who = this.names[this.rank + 3];
    return `${who}, '${this.range}' ${steps}: ${cell.textContent}; median of the ranks ${median.textContent}${against}.`;
  }
}

for (const article of document.querySelectorAll(".steps")) if (article.querySelector(".strips")) new Steps(article);
