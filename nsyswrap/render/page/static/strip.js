// Strips of steps, or of equal parts of the time: a click or an arrow key chooses one, which the timeline shows.

class Strip {
  constructor(svg) {
    this.columns = [...svg.querySelectorAll("g[data-start]")];
    if (!this.columns.length) return;
    this.timeline = timelineOf(this.columns[0].dataset.label);
    this.line = document.createElementNS(svg.namespaceURI, "rect"); // below the chosen column
    this.line.setAttribute("class", "below");
    svg.firstElementChild.append(this.line);
    svg.setAttribute("tabindex", 0);
    svg.setAttribute("role", "application");
    svg.addEventListener("click", ({ target }) => this.choose(this.columns.indexOf(target.closest("g[data-start]"))));
    svg.addEventListener("keydown", (event) => {
      const at = placeAmong(event.key, this.chosen ?? -1, this.columns.length);
      if (at === null) return;
      event.preventDefault();
      this.choose(at);
    });
    this.timeline?.ready.then(() => this.timeline.content && this.mark(this.at(...this.timeline.content.opens)));
  }

  // Start and end of a column, in ns from the first event on.
  times(column) {
    const { start, length } = column.dataset;
    const from = Number(start) - this.timeline.content.origin;
    return [from, from + Number(length)];
  }

  // The column in which the middle of a part of time lies; -1 if it is longer than that.
  at(start, end) {
    return this.columns.findIndex((column) => {
      const [from, to] = this.times(column);
      return from <= (start + end) / 2 && (start + end) / 2 < to && end - start <= 1.5 * (to - from);
    });
  }

  mark(number) {
    this.chosen = number;
    this.columns.forEach((column, i) => column.classList.toggle("chosen", i === number));
    const place = this.columns[number]?.querySelector("rect");
    for (const name of ["x", "width"]) this.line.setAttribute(name, place?.getAttribute(name) ?? 0);
  }

  choose(number) {
    const { timeline } = this;
    if (number < 0 || !timeline?.content) return;
    this.mark(number);
    leave(timeline);
    timeline.view.keep();
    timeline.view.around(...this.times(this.columns[number]));
    timeline.readout.say(this.columns[number].querySelector("title").textContent);
    timeline.draw();
  }
}

// The place among so many to which a key leads; null for other keys.
function placeAmong(key, now, count) {
  const places = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: count - 1 };
  return key in places ? Math.min(Math.max(places[key], 0), count - 1) : null;
}

for (const svg of document.querySelectorAll(".columns")) new Strip(svg);
