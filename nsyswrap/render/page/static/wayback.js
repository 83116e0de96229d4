// Where a view holds no event, by zooming into a gap for example: which one is nearest, and the way to it.

class WayBack {
  constructor(timeline) {
    this.timeline = timeline;
    this.button = timeline.article.querySelector("[data-action=back]");
  }

  // Lanes of events; steps, idle time and NVTX ranges also go on where nothing happens.
  get lanes() {
    const { rows, events, series } = this.timeline.content;
    const happens = (lane) => ["kernels", "copies", "calls"].includes(series[events.series[events.lanes[lane][0]]]?.family);
    return rows.shown.filter((lane) => events.lanes[lane][0] < events.lanes[lane][1] && happens(lane));
  }

  show() {
    const { content, picture, view, readout } = this.timeline;
    const { lanes } = this;
    const isEmpty = (lane) => !contents(content, picture, lane, view.start, view.end).found.size;
    const [least, most] = this.timeline.sight;
    const seen = lanes.filter((lane) => content.rows.tops[lane] >= least && content.rows.tops[lane] <= most);
    const near = seen.length ? seen : lanes;
    this.nearest = near.every(isEmpty) ? this.find(near) : -1;
    this.button.hidden = this.nearest < 0;
    if (this.nearest < 0 || picture.selected >= 0) return; // what is said of an event stays
    const { start, end } = content.events.item(this.nearest);
    const away = end <= view.start ? `${duration(view.start - end)} earlier` : `${duration(start - view.end)} later`;
    readout.say(`No event in view. The nearest one is ${away}.`);
  }

  // The event of these lanes that is nearest to the view.
  find(lanes) {
    const { content, view } = this.timeline;
    const { events } = content;
    let [found, least] = [-1, Infinity];
    for (const lane of lanes) {
      const [first, last] = events.range(lane, view.start, view.end);
      for (const i of [first - 1, last]) {
        if (events.lane[i] !== lane) continue;
        const away = Math.max(view.start - events.end[i], events.start[i] - view.end);
        if (away < least) [found, least] = [i, away];
      }
    }
    return found;
  }

  go() {
    if (this.nearest >= 0) this.timeline.fit(this.nearest, 2);
  }
}
