// What mouse, wheel and fingers do on a timeline.

class Pointer {
  constructor(timeline) {
    this.timeline = timeline;
    this.fingers = new Map(); // and the mouse, while it is down: where each is, and the time that it holds
    const { canvas } = timeline;
    const listen = (kind, act) => canvas.addEventListener(kind, (event) => act.call(this, event), { passive: false });
    listen("wheel", this.wheel);
    listen("pointerdown", this.grab);
    listen("pointermove", this.move);
    listen("pointerup", this.release);
    listen("pointercancel", this.letGo);
    listen("dblclick", ({ offsetX, offsetY }) => {
      timeline.view.keep();
      timeline.fitAt(offsetX, offsetY);
    });
    listen("pointerleave", (event) => {
      this.turned = null;
      if (event.pointerType === "mouse") timeline.readout.tell(timeline.picture.selected); // a finger leaves with every tap
    });
  }

  wheel(event) {
    const { view, picture } = this.timeline;
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const zooms = event.ctrlKey || event.metaKey; // a pinch on a touchpad, too
    if (!sideways && !zooms) return; // the page scrolls
    view.keepOnce();
    if (zooms) view.zoom(Math.exp(Math.min(Math.max(event.deltaY, -200), 200) / 400), picture.time(event.offsetX));
    else view.pan((event.deltaX || event.deltaY) / 1000);
    event.preventDefault();
    this.turned = [event.offsetX, event.offsetY];
    this.timeline.draw();
  }

  // Say what the pointer is on now that the wheel has moved the view below it.
  rest() {
    if (this.turned) this.timeline.point(...this.turned);
    this.turned = null;
  }

  grab(event) {
    const { picture, canvas } = this.timeline;
    const x = event.offsetX;
    if (!this.fingers.size) {
      this.moved = false;
      this.measures = event.shiftKey;
    }
    this.fingers.set(event.pointerId, { x, from: x, time: picture.time(x) });
    canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    const { view, picture } = this.timeline;
    const finger = this.fingers.get(event.pointerId);
    this.turned = null;
    if (!finger) {
      this.timeline.point(event.offsetX, event.offsetY);
      return;
    }
    finger.x = event.offsetX;
    this.moved ||= this.fingers.size > 1 || Math.abs(finger.x - finger.from) > 3;
    if (this.moved && this.measures) this.timeline.measure.show(finger.time, picture.time(finger.x));
    else if (this.moved) {
      view.keepOnce();
      this.drag(...this.fingers.values());
    }
    this.timeline.draw();
  }

  // Bring the times that are held to where they are held: one finger moves, two zoom.
  drag(one, other = one) {
    const { view, picture } = this.timeline;
    const apart = Math.abs(other.x - one.x);
    const span = apart > 10 ? (Math.abs(other.time - one.time) / apart) * picture.width : view.span;
    const start = (one.time + other.time - ((one.x + other.x) / picture.width) * span) / 2;
    view.show(start, start + span);
  }

  letGo(event) {
    this.fingers.delete(event.pointerId);
    for (const finger of this.fingers.values()) finger.time = this.timeline.picture.time(finger.x);
  }

  release(event) {
    const { timeline } = this;
    this.letGo(event);
    if (this.moved || this.fingers.size) return;
    timeline.measure.clear();
    timeline.picture.lane = timeline.picture.laneAt(event.offsetY);
    timeline.select(timeline.at(event.offsetX, event.offsetY));
    if (timeline.picture.selected < 0) timeline.point(event.offsetX, event.offsetY);
    timeline.draw();
  }
}
