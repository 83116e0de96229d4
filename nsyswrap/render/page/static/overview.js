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
    const scale = devicePixelRatio || 1;
    const width = Math.max(this.canvas.clientWidth, 50);
    if (!this.drawn || this.width !== width) this.paint(width, scale);
    const { pen, picture } = this;
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

  // The whole time is drawn once, all lanes of GPUs over one another, into a picture of its own.
  paint(width, scale) {
    this.width = width;
    [this.canvas.width, this.canvas.height] = [Math.round(width * scale), Math.round(STRIP * scale)];
    const own = document.createElement("canvas");
    [own.width, own.height] = [this.canvas.width, this.canvas.height];
    const { content } = this;
    const work = content.lanes.map((lane, i) => (lane.family === "kernels" ? i : -1)).filter((i) => i >= 0);
    const strip = new Picture(own, content, this.whole);
    strip.rows = { tops: content.lanes.map(() => 2), shown: work.length ? work : content.lanes.map((_, i) => i), height: STRIP };
    Object.assign(strip, { width, height: STRIP, scale });
    strip.look();
    strip.paint(own.width, 0, own.height);
    this.drawn = own;
  }
}
