// The events of a timeline that are kept one by one, found by place in time: those of a lane lie together.

class Events {
  constructor(content, columns, texts) {
    Object.assign(this, columns, texts);
    const { start, duration, look, looks } = this;
    const count = (this.count = start.length);
    const end = (this.end = new Float64Array(count));
    const series = (this.series = new Uint16Array(count));
    const name = (this.name = new Uint32Array(count));
    for (let i = 0; i < count; i++) {
      const mine = looks[look[i]];
      end[i] = start[i] + duration[i];
      series[i] = mine[0];
      name[i] = mine[1];
    }
    this.lane = new Uint16Array(count);
    const reach = (this.reach = new Float64Array(count)); // the latest end of a lane's events so far
    let first = 0;
    this.lanes = content.lanes.map((lane, number) => {
      const place = [first, first + lane.kept];
      this.lane.fill(number, ...place);
      let reached = -Infinity;
      for (let i = first; i < place[1]; i++) reach[i] = reached = Math.max(reached, end[i]);
      first = place[1];
      return place;
    });
  }

  // Places of the events of a lane that can meet a part of time. All that do are in it.
  range(lane, start, end) {
    const [first, last] = this.lanes[lane];
    return [firstFrom(this.reach, start, first, last), firstOver(this.start, end, first, last)];
  }

  item(i) {
    if (!(i >= 0)) return null;
    const { start, end, duration, lane, series, call } = this;
    return {
      number: i,
      start: start[i],
      end: end[i],
      duration: duration[i],
      lane: lane[i],
      series: series[i],
      call: call[i],
      name: this.names[this.name[i]],
      full: this.full[this.name[i]],
      shape: this.shapes[this.shape[i]],
      path: this.paths[this.path[i]],
      bytes: this.bytes[i],
      correlation: this.correlation[i],
    };
  }

  // The calls and what they launched, as pairs, of which one is this event.
  launches(i) {
    if (this.call[i] >= 0) return [[this.call[i], i]];
    const pairs = [];
    for (let at = this.call.indexOf(i); at >= 0; at = this.call.indexOf(i, at + 1)) pairs.push([i, at]);
    return pairs;
  }

  // The events of these names in order of time.
  named(names) {
    const found = [];
    for (let i = 0; i < this.count; i++) if (names.has(this.name[i])) found.push(i);
    return found.sort((a, b) => this.start[a] - this.start[b] || a - b);
  }
}
