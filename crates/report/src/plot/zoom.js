"use strict";
// Zooms the plots over time, all together: wheel, pinch, or a dragged range; double click for the whole run.
// Lines are drawn anew from the embedded model, outlined by the least and greatest value of each pixel column.
(() => {
  const plots = [...document.querySelectorAll("svg[data-plot]")].map((svg) => {
    const numbers = (name) => svg.dataset[name].split(" ").map(Number);
    const [left, right, top, bottom] = numbers("frame");
    const ticks = svg.querySelector(".ticks");
    const fixed = [...ticks.children].map((text) => [Number(text.dataset.at), text.textContent]);
    const { width, height } = svg.viewBox.baseVal;
    return { svg, left, right, top, bottom, width, height, ticks, fixed,
      x: numbers("x"), y: numbers("y"), overTime: "time" in svg.dataset };
  });
  const timed = plots.filter((plot) => plot.overTime);
  if (!plots.length) return;
  const whole = timed.length ? timed[0].x : [0, 1];
  let view = whole, finest = (whole[1] - whole[0]) / 1e6, model;
  document.documentElement.dataset.live = "";

  // The format is described in the model's own "format".
  function unpack(text, count) {
    const bytes = atob(text), values = new Float64Array(count);
    let at = 0, made = 0;
    const byte = () => bytes.charCodeAt(at++);
    const varint = () => {
      let value = 0, scale = 1, part;
      do { part = byte(); value += (part & 127) * scale; scale *= 128; } while (part > 127);
      return value;
    };
    while (at < bytes.length) {
      const n = byte(), w = byte(), code = varint(), unit = w ? varint() : 0;
      const least = code % 2 ? -(code + 1) / 2 : code / 2, size = 2 ** w;
      for (let k = 0, held = 0, bits = 0; k < n; k++) {
        while (bits < w) { held += byte() * 2 ** bits; bits += 8; }
        const rest = Math.floor(held / size);
        values[made++] = least + unit * (held - rest * size);
        held = rest; bits -= w;
      }
    }
    return values;
  }

  function load() {
    model = JSON.parse(document.getElementById("icdc-report").textContent);
    for (const { series } of model.plots) for (const one of series) {
      const { uniform } = one;
      if (uniform) {
        uniform.values = unpack(uniform.packed, uniform.count);
        uniform.packed = "";
      } else {
        one.points = one.points.filter(([at, value]) => at !== null && value !== null);
      }
    }
    const steps = model.plots.flatMap(({ series }) => series).flatMap(({ uniform }) => uniform ? [uniform.step_seconds] : []);
    if (steps.length) finest = Math.max(finest, 5 * Math.min(...steps));
  }

  // Groups of steps as [from, to, least, greatest], at most one per pixel.
  function groups({ start_seconds: start, step_seconds: step, scale, values }, [a, b], most) {
    const first = Math.max(0, Math.floor((a - start) / step + 1e-6));
    const last = Math.min(values.length, Math.ceil((b - start) / step - 1e-6));
    const number = Math.max(0, Math.min(last - first, most)), made = [];
    const border = (group) => first + Math.floor(group * (last - first) / number);
    for (let group = 0; group < number; group++) {
      const from = border(group), to = border(group + 1);
      let low = values[from], high = low;
      for (let k = from + 1; k < to; k++) {
        if (values[k] < low) low = values[k]; else if (values[k] > high) high = values[k];
      }
      made.push([start + from * step, start + to * step, low * scale, high * scale]);
    }
    return made;
  }

  // The points in view, with those where lines cross its borders.
  function inside(points, [a, b], most, steps) {
    let from = points.findIndex(([at]) => at >= a), to = points.findIndex(([at]) => at > b);
    if (from < 0) from = points.length;
    if (to < 0) to = points.length;
    const cross = (at, [x0, y0], [x1, y1]) => [at, steps ? y1 : y0 + (y1 - y0) * (at - x0) / (x1 - x0)];
    let kept = points.slice(from, to);
    if (kept.length > 2 * most) {
      const all = kept;
      kept = [];
      for (let column = 0; column < most; column++) {
        const part = all.slice(Math.floor(column * all.length / most), Math.floor((column + 1) * all.length / most));
        let low = part[0], high = part[0];
        for (const point of part) { if (point[1] < low[1]) low = point; if (point[1] >= high[1]) high = point; }
        kept.push(...(low === high ? [low] : low[0] < high[0] ? [low, high] : [high, low]));
      }
    }
    if (!steps && from > 0 && from < points.length && points[from][0] > a) kept.unshift(cross(a, points[from - 1], points[from]));
    if (to > 0 && to < points.length && points[to - 1][0] < b) kept.push(cross(b, points[to - 1], points[to]));
    return kept;
  }

  function outline(plot, range, { stroke, uniform, points }) {
    const room = plot.width - plot.left - plot.right, foot = plot.height - plot.bottom;
    const unit = (value) => Math.min(1, Math.max(0, value));
    const across = (at) => plot.left + unit((at - range[0]) / (range[1] - range[0])) * room;
    const x = (at) => across(at).toFixed(1);
    const y = (value) => (foot - unit((value - plot.y[0]) / (plot.y[1] - plot.y[0])) * (foot - plot.top)).toFixed(1);
    const most = Math.floor(room);
    const parts = uniform ? groups(uniform, range, most) : inside(points, range, most, stroke === "area" || stroke === "marks");
    let path = "", dots = "";
    if (stroke === "marks") {
      const marked = new Set();
      for (const part of parts) {
        const [from, to, high] = uniform ? [part[0], part[1], part[3]] : [part[0], part[0], part[1]];
        if (high > 0 && from <= range[1]) marked.add(Math.round(across((from + to) / 2)));
      }
      for (const place of marked) path += `M${place} ${foot}v-9`;
    } else if (stroke === "area" && parts.length) {
      let end = x(uniform ? parts[0][0] : range[0]);
      path = `M${end} ${foot}`;
      for (const part of parts) path += `V${y(uniform ? part[3] : part[1])}H${end = x(uniform ? part[1] : part[0])}`;
      path += `L${end} ${foot}Z`;
    } else if (uniform) {
      let before = 0;
      for (const [from, to, least, greatest] of parts) {
        const near = Math.abs(before - least) <= Math.abs(before - greatest);
        before = near ? greatest : least;
        const first = y(near ? least : greatest), second = y(before);
        path += `${path ? "V" : `M${x(from)} `}${first}${first === second ? "" : `V${second}`}H${x(to)}`;
      }
    } else {
      if (stroke !== "points") for (const [at, value] of parts) path += `${path ? "L" : "M"}${x(at)} ${y(value)}`;
      const own = points.filter(([at]) => at >= range[0] && at <= range[1]);
      if (parts.length === 1 || stroke === "points" || (stroke === "line" && (!plot.overTime || own.length <= 60))) {
        for (const [at, value] of own) dots += `M${x(at)} ${y(value)}h0`;
      }
    }
    return [path, dots];
  }

  const CLOCK = [15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  function stepOf(rough) {
    if (rough > 10) return CLOCK.find((step) => step >= rough) || Math.ceil(rough / 86400) * 86400;
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9));
  }
  function clock(seconds, step) {
    const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
    if (whole[1] <= 120) return `${seconds.toFixed(digits)} s`;
    const ticks = Math.round(seconds * 10 ** digits) / 10 ** digits;
    const pad = (value, digits = 0) => (value < 10 ? "0" : "") + value.toFixed(digits);
    const minutes = Math.floor(ticks / 60), rest = pad(ticks - minutes * 60, digits);
    return whole[1] < 3600 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${pad(minutes % 60)}:${rest}`;
  }
  function span(seconds) {
    const [factor, unit] = seconds < 1e-3 ? [1e6, "µs"] : seconds < 1 ? [1e3, "ms"] : [1, "s"];
    return `${Number((seconds * factor).toPrecision(3))} ${unit}`;
  }

  function drawTicks(plot, range) {
    const room = plot.width - plot.left - plot.right, end = plot.width - plot.right;
    let marks = plot.fixed;
    if (plot.overTime) {
      const sample = clock(range[1], (range[1] - range[0]) / 8).length * 7 + 30;
      const step = stepOf((range[1] - range[0]) / Math.max(1, Math.min(8, Math.floor(room / sample))));
      marks = [];
      for (let k = Math.ceil(range[0] / step - 1e-6); k * step <= range[1] + step * 1e-6; k++) marks.push([k * step, clock(k * step, step)]);
    }
    let free = -Infinity;
    plot.ticks.replaceChildren(...marks.flatMap(([at, label]) => {
      const x = plot.left + (at - range[0]) / (range[1] - range[0]) * room, half = label.length * 3.5;
      if (x - half < free) return [];
      free = x + half + 8;
      const text = document.createElementNS(plot.svg.namespaceURI, "text");
      const attributes = { class: "x", "text-anchor": x + half > plot.width ? "end" : "middle",
        x: x + half > plot.width ? end : x, y: plot.height - plot.bottom + 17 };
      for (const name in attributes) text.setAttribute(name, attributes[name]);
      text.textContent = label;
      return [text];
    }));
  }

  function draw(plot) {
    const width = plot.svg.getBoundingClientRect().width;
    if (!width) return;
    plot.width = width;
    plot.svg.setAttribute("viewBox", `0 0 ${width} ${plot.height}`);
    const range = plot.overTime ? view : plot.x, end = width - plot.right;
    for (const line of plot.svg.querySelectorAll(".grid")) line.setAttribute("d", line.getAttribute("d").replace(/H.*/, `H${end}`));
    for (const text of plot.svg.querySelectorAll(".axis,.none")) text.setAttribute("x", (plot.left + end) / 2);
    drawTicks(plot, range);
    model.plots[plot.svg.dataset.plot].series.forEach((series, index) => {
      const [path, dots] = outline(plot, range, series);
      plot.svg.querySelector(`[data-line="${index}"]`).setAttribute("d", path);
      plot.svg.querySelector(`[data-dots="${index}"]`).setAttribute("d", dots);
    });
  }

  let asked = 0, noted = 0, bar;
  function redraw() {
    asked = 0;
    if (!model) load();
    plots.forEach(draw);
    if (!bar) return;
    const zoomed = view[0] > whole[0] || view[1] < whole[1], step = (view[1] - view[0]) / 100;
    bar.place.textContent = zoomed ? `${clock(view[0], step)} – ${clock(view[1], step)} (${span(view[1] - view[0])})` : bar.hint;
    for (const way of bar.ways) way.disabled = !zoomed;
    clearTimeout(noted);
    // The address keeps what is shown, for reloading and for sharing.
    noted = setTimeout(() => {
      try { history.replaceState(null, "", zoomed ? `#t=${view.map((at) => Number(at.toFixed(6)))}` : "#"); } catch { /* not allowed here */ }
    }, 300);
  }
  const ask = () => { asked ||= requestAnimationFrame(redraw); };
  function show(from, to) {
    if (!model) load();
    const length = Math.min(Math.max(to - from, finest), whole[1] - whole[0]);
    const start = Math.min(Math.max((from + to - length) / 2, whole[0]), whole[1] - length);
    view = [start, Math.min(start + length, whole[1])];
    ask();
  }
  const zoom = (factor, at) => show(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
  const middle = () => (view[0] + view[1]) / 2;
  function shift(by) {
    const length = view[1] - view[0], start = Math.min(Math.max(view[0] + by, whole[0]), whole[1] - length);
    show(start, start + length);
  }

  function timeAt(plot, clientX) {
    const box = plot.svg.getBoundingClientRect(), scale = plot.width / box.width;
    const share = ((clientX - box.left) * scale - plot.left) / (plot.width - plot.left - plot.right);
    return view[0] + Math.min(1, Math.max(0, share)) * (view[1] - view[0]);
  }

  // A wheel that scrolls the page goes on doing so when a plot comes under it.
  let scrolled = -Infinity;
  addEventListener("scroll", (event) => { scrolled = event.timeStamp; }, { passive: true });
  function wheel(plot, event) {
    const [dx, dy] = [event.deltaX, event.deltaY].map((delta) => delta * (event.deltaMode ? 16 : 1));
    const out = dy > 0 && view[0] <= whole[0] && view[1] >= whole[1];
    if (event.timeStamp - scrolled < 250 || out) return;
    event.preventDefault();
    const aside = event.shiftKey ? dx || dy : Math.abs(dx) > Math.abs(dy) ? dx : 0;
    if (aside) shift(aside * (view[1] - view[0]) / plot.width);
    else zoom(Math.exp(dy * 0.002), timeAt(plot, event.clientX));
  }

  // Fingers hold the times that they touched; mouse and pen select a range.
  const held = new Map();
  let picked = null;
  function press(plot, event) {
    if (event.button) return;
    const at = timeAt(plot, event.clientX);
    if (event.pointerType === "touch") {
      held.set(event.pointerId, { plot, at, x: event.clientX });
    } else {
      event.preventDefault();
      const box = document.createElementNS(plot.svg.namespaceURI, "path");
      box.setAttribute("class", "pick");
      plot.svg.append(box);
      picked = { plot, at, to: at, x: event.clientX, box };
    }
  }
  function move(event) {
    if (picked && event.pointerType !== "touch") {
      const { plot, at, box } = picked, x = (time) => plot.left + (time - view[0]) / (view[1] - view[0]) * (plot.width - plot.left - plot.right);
      picked.to = timeAt(plot, event.clientX);
      box.setAttribute("d", `M${x(at)} ${plot.top}H${x(picked.to)}V${plot.height - plot.bottom}H${x(at)}Z`);
    }
    const finger = held.get(event.pointerId);
    if (!finger) return;
    finger.x = event.clientX;
    const [one, two] = held.values(), { plot } = one;
    const box = plot.svg.getBoundingClientRect(), scale = box.width / plot.width;
    const room = (plot.width - plot.left - plot.right) * scale, share = ({ x }) => (x - box.left - plot.left * scale) / room;
    let length = view[1] - view[0];
    if (two && Math.abs(one.x - two.x) > 8) length = Math.min(Math.max((two.at - one.at) / (share(two) - share(one)), finest), whole[1] - whole[0]);
    if (!(length > 0)) return;
    const start = Math.min(Math.max(one.at - share(one) * length, whole[0]), whole[1] - length);
    show(start, start + length);
  }
  function release(event) {
    held.delete(event.pointerId);
    // A finger that stays holds what is now under it.
    for (const finger of held.values()) finger.at = timeAt(finger.plot, finger.x);
    if (!picked || event.pointerType === "touch") return;
    const { at, to, x, box } = picked;
    picked = null;
    box.remove();
    if (event.type === "pointerup" && Math.abs(event.clientX - x) > 4) show(Math.min(at, to), Math.max(at, to));
  }

  function button(text, label, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.title = label;
    made.addEventListener("click", act);
    return made;
  }
  if (timed.length) {
    const box = document.createElement("div"), place = document.createElement("span");
    const ways = [
      button("−", "Zoom out", () => zoom(2, middle())),
      button("‹", "Earlier", () => shift((view[0] - view[1]) / 2)),
      button("›", "Later", () => shift((view[1] - view[0]) / 2)),
      button("whole run", "Show the whole run", () => show(...whole)),
    ];
    box.className = "zoom";
    box.append(button("+", "Zoom in", () => zoom(0.5, middle())), ...ways, place);
    timed[0].svg.closest("figure").before(box);
    const coarse = matchMedia("(pointer: coarse)").matches;
    bar = { ways, place, hint: coarse ? "pinch to zoom, drag to move" : "wheel or drag over a plot to zoom, double click for all" };
    place.textContent = bar.hint;
    for (const way of ways) way.disabled = true;
    for (const plot of timed) {
      plot.svg.addEventListener("wheel", (event) => wheel(plot, event), { passive: false });
      plot.svg.addEventListener("pointerdown", (event) => press(plot, event));
      plot.svg.addEventListener("dblclick", () => show(...whole));
    }
    addEventListener("pointermove", move);
    addEventListener("pointerup", release);
    addEventListener("pointercancel", release);
  }
  function address() {
    const range = /^#t=([\d.]+),([\d.]+)$/.exec(location.hash);
    if (range && timed.length && range[2] > 0) show(Number(range[1]), Number(range[2]));
  }
  addEventListener("hashchange", address);
  addEventListener("resize", ask);
  address();
  // On a narrow screen the drawing for a wide one has letters too small to read.
  if (innerWidth < 900) setTimeout(ask);
})();
