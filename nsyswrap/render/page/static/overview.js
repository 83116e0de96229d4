// The strip over a timeline: the GPU work of the whole time, and a frame around the part that is seen.

const STRIP = 26; // its height, in pixels

class Overview {
  constructor(canvas, content, picture, moved) {
    Object.assign(this, { canvas, content, picture, moved });
    this.pen = canvas.getContext("2d");
    this.whole = { start: 0, end: content.length, span: content.length, ticks: () => [] };
    const follow = (event) => event.buttons && this.follow(event.offsetX, event.type === "pointerdown");
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      follow(event);
    });
    canvas.addEventListener("pointermove", follow);
  }

  // Bring the middle of the view to where the pointer is.
  follow(x, begins) {
    const { view } = this.picture;
    if (begins) view.keep();
    const middle = (x / this.width) * this.content.length;
    view.show(middle - view.span / 2, middle + view.span / 2);
    this.moved();
  }

  refresh() {
    this.drawn = null;
  }

  draw() {
    const { pen, picture, scale, width } = this;
    if (!this.drawn || this.drawnWidth !== width) this.paint();
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, STRIP);
    pen.drawImage(this.drawn, 0, 0, width, STRIP);
    const [from, to] = [picture.view.start, picture.view.end].map((time) => (time / this.content.length) * width);
    const left = Math.min(Math.max(from, 0), width - 3);
    pen.fillStyle = picture.color("ground");
    pen.globalAlpha = 0.55;
    pen.fillRect(0, 0, left, STRIP);
    pen.fillRect(Math.max(to, left + 3), 0, width, STRIP);
    pen.globalAlpha = 1;
    pen.strokeStyle = picture.color("text");
    pen.lineWidth = 2;
    pen.strokeRect(left + 1, 1, Math.max(Math.min(to, width) - left, 3) - 2, STRIP - 2);
  }

  get scale() {
    return devicePixelRatio || 1;
  }

  get width() {
    return Math.max(this.canvas.clientWidth, 50);
  }

  // The whole time is drawn once, into a picture of its own: the work of all GPUs, as the share of their time.
  paint() {
    const strip = this.strip();
    this.lanes.forEach((lane) => strip.addAll(lane));
    this.finish(strip);
  }

  // Do so lane by lane with pauses.
  async prepare() {
    const strip = this.strip();
    for (const lane of this.lanes) {
      await breathe();
      strip.addAll(lane);
    }
    this.finish(strip);
  }

  get lanes() {
    const { lanes } = this.content;
    const every = lanes.map((_, i) => i);
    const work = every.filter((i) => lanes[i].family === "kernels");
    return work.length ? work : every;
  }

  strip() {
    const own = document.createElement("canvas");
    [own.width, own.height] = [Math.round(this.width * this.scale), Math.round(STRIP * this.scale)];
    const strip = new Picture(own, this.content, this.whole);
    Object.assign(strip, { width: this.width, height: STRIP, scale: this.scale });
    strip.look();
    strip.begin(own.width, 0, own.height);
    strip.empty();
    return strip;
  }

  finish(strip) {
    const groups = new Set(this.lanes.map((lane) => this.content.lanes[lane].group));
    strip.stack(2, strip.inks, groups.size * strip.perColumn);
    strip.pixels.show(strip.pen);
    this.drawn = strip.canvas;
    this.drawnWidth = strip.width;
    [this.canvas.width, this.canvas.height] = [this.drawn.width, this.drawn.height];
  }
}
