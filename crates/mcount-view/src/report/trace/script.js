// The flame graph, the timeline and the table of a trace.
const NAME = 0, MODULE = 1;

function nameOf(at) {
  return at === null || !data.functions[at] ? "?" : data.functions[at][NAME];
}

function fileOf(at) {
  return at === null || !data.functions[at] ? "?" : data.modules[data.functions[at][MODULE]];
}

function duration(ns) {
  if (ns < 1e3) return ns.toFixed(0) + " ns";
  if (ns < 1e6) return (ns / 1e3).toFixed(3) + " µs";
  if (ns < 1e9) return (ns / 1e6).toFixed(3) + " ms";
  return (ns / 1e9).toFixed(3) + " s";
}

const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;

// Colours say in which file a function is, or how much time (or how many calls) are its own. The colours differ for readers who see
// two primary colours only; the last one is that of all other files, and of what has no function.
const colours = (() => {
  const OWN = data.hasTimes ? 4 : 2;
  const FILES = {
    light: ["#77aadd", "#ee8866", "#eedd88", "#44bb99", "#99ddff", "#aaaa00", "#dddddd"],
    dark: ["#1f5c8f", "#9b5108", "#8e29f3", "#412810", "#7b5b3b", "#3d0674", "#454d58"],
  };
  const SHARES = {
    light: ["#e3e7ec", "#bfd9ef", "#8dbbe3", "#4f8cc9"],
    dark: ["#3f4750", "#23405f", "#1c5488", "#176bb0"],
  };
  const LIMITS = [0.01, 0.05, 0.2];
  const listeners = [];
  const chosen = by("colours");
  const weights = data.modules.map(() => 0);
  let whole = 0;
  for (const row of data.functions) {
    weights[row[MODULE]] += row[OWN];
    whole += row[OWN];
  }
  const order = data.modules.map((_, at) => at).sort((a, b) => weights[b] - weights[a] || a - b);
  const others = FILES.light.length - 1;
  const rank = data.modules.map(() => others);
  order.slice(0, others).forEach((module, at) => (rank[module] = at));
  const palette = (set) => set[dark() ? "dark" : "light"];

  function of(at) {
    const row = at === null ? undefined : data.functions[at];
    if (chosen.value === "file") return palette(FILES)[row ? rank[row[MODULE]] : others];
    const share = row ? row[OWN] / (whole || 1) : 0;
    return palette(SHARES)[LIMITS.filter((limit) => share >= limit).length];
  }

  function entries() {
    if (chosen.value === "own") {
      const percent = LIMITS.map((limit) => limit * 100 + " %");
      const texts = ["less than " + percent[0], ...percent.map((from, at) => (percent[at + 1] ? from + " to " + percent[at + 1] : from + " and more"))];
      return texts.map((text, at) => [palette(SHARES)[at], text + (at === 0 ? (data.hasTimes ? " of all time" : " of all calls") : "")]);
    }
    const named = order.slice(0, others).map((module, at) => [palette(FILES)[at], data.modules[module].split("/").pop(), data.modules[module]]);
    const left = order.length - named.length;
    return left > 0 ? [...named, [palette(FILES)[others], grouped(left) + (left === 1 ? " other file" : " other files")]] : named;
  }

  function tell() {
    by("legend").replaceChildren(...entries().map(([colour, text, title]) => {
      const entry = document.createElement("span"), sample = document.createElement("span");
      entry.setAttribute("role", "listitem");
      sample.className = "sample";
      sample.style.background = colour;
      entry.title = title || "";
      entry.append(sample, text);
      return entry;
    }));
    for (const listener of listeners) listener();
  }

  // One colour for everything would say nothing.
  if (data.modules.length < 2) chosen.value = "own";
  chosen.addEventListener("change", tell);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  tell();
  return { of, listen: (listener) => listeners.push(listener) };
})();

// The flame graph: a button for each field that is wide enough, so that each has a name and takes the focus.
{
  const PARENT = 0, WHAT = 1, CALLS = 2, WEIGHT = 3;
  const HEIGHT = 20, NARROW = 3, MOST = 2500;
  const view = by("flame");
  const fields = data.flame;
  const name = fields.map((field) => (typeof field[WHAT] === "string" ? field[WHAT] : nameOf(field[WHAT])));
  const children = fields.map(() => []);
  const roots = [];
  fields.forEach((field, at) => (field[PARENT] === null ? roots : children[field[PARENT]]).push(at));
  for (const list of [roots, ...children]) list.sort((a, b) => fields[b][WEIGHT] - fields[a][WEIGHT] || a - b);
  const whole = roots.reduce((sum, at) => sum + fields[at][WEIGHT], 0);
  let zoomed = null;
  let drawn = new Map();

  function amount(at) {
    const weight = fields[at][WEIGHT];
    const share = ((100 * weight) / (whole || 1)).toFixed(1) + " %";
    const calls = grouped(fields[at][CALLS]) + (fields[at][CALLS] === 1 ? " call" : " calls");
    return data.hasTimes ? duration(weight) + ", " + share + ", " + calls : calls + ", " + share;
  }

  function around(at) {
    const chain = [];
    for (let next = at; next !== null; next = fields[next][PARENT]) chain.unshift(next);
    return chain;
  }

  function button(at, left, width, depth, found) {
    const field = document.createElement("button");
    field.type = "button";
    field.textContent = width > 25 ? name[at] : "";
    field.title = name[at] + ": " + amount(at);
    field.setAttribute("aria-label", name[at] + ", " + amount(at));
    field.style.left = left + "px";
    field.style.width = Math.max(width, 1) + "px";
    field.style.top = depth * HEIGHT + "px";
    field.tabIndex = -1;
    field.dataset.at = String(at);
    if (found(at)) field.classList.add("match");
    else field.style.background = colours.of(typeof fields[at][WHAT] === "string" ? null : fields[at][WHAT]);
    drawn.set(at, field);
    return field;
  }

  // What is looked for, as a test of a field.
  function wanted() {
    const looked = words(by("find").value);
    return (at) => looked.length > 0 && looked.every((word) => name[at].toLowerCase().includes(word));
  }

  function draw() {
    const width = view.clientWidth || 1200;
    const found = wanted();
    const fresh = document.createDocumentFragment();
    const chain = zoomed === null ? [] : around(zoomed);
    drawn = new Map();
    let deepest = 0;
    chain.slice(0, -1).forEach((at, depth) => {
      const field = button(at, 0, width, depth, found);
      field.classList.add("around");
      fresh.append(field);
    });
    const all = zoomed === null ? whole : fields[zoomed][WEIGHT];
    const scale = width / (all || 1);
    const waiting = [{ list: zoomed === null ? roots : [zoomed], left: 0, depth: Math.max(chain.length - 1, 0) }];
    for (let next = 0; next < waiting.length && drawn.size < MOST; next++) {
      const { list, left, depth } = waiting[next];
      let at = left;
      for (const one of list) {
        const wide = fields[one][WEIGHT] * scale;
        if (wide < NARROW && drawn.size > 0) break;
        fresh.append(button(one, at, wide, depth, found));
        deepest = Math.max(deepest, depth);
        waiting.push({ list: children[one], left: at, depth: depth + 1 });
        at += wide;
      }
    }
    view.replaceChildren(fresh);
    view.style.height = Math.min((deepest + 1) * HEIGHT + 2, 460) + "px";
    const first = drawn.get(zoomed === null ? roots[0] : zoomed);
    if (first) first.tabIndex = 0;
  }

  function say(at) {
    by("flame-said").textContent = around(at).map((one) => name[one]).join(" › ") + ": " + amount(at);
  }

  function focus(at) {
    const field = drawn.get(at);
    if (!field) return;
    view.querySelectorAll("[tabindex='0']").forEach((other) => (other.tabIndex = -1));
    field.tabIndex = 0;
    field.focus();
  }

  function zoom(at) {
    zoomed = at;
    draw();
    focus(at === null ? roots[0] : at);
  }

  function search() {
    const found = wanted();
    draw();
    // A field inside one that was found is a part of it.
    let count = 0, weight = 0;
    const inside = [];
    fields.forEach((field, at) => {
      const is = found(at);
      const isInside = field[PARENT] !== null && inside[field[PARENT]];
      inside[at] = is || isInside;
      count += is ? 1 : 0;
      weight += is && !isInside ? field[WEIGHT] : 0;
    });
    by("found").textContent = words(by("find").value).length
      ? grouped(count) + " found, " + ((100 * weight) / (whole || 1)).toFixed(1) + " %" : "";
  }

  function neighbour(at, key) {
    const parent = fields[at][PARENT];
    if (key === "ArrowUp") return parent;
    if (key === "ArrowDown") return children[at].find((one) => drawn.has(one)) ?? null;
    const beside = parent === null ? roots : children[parent];
    return beside[beside.indexOf(at) + (key === "ArrowLeft" ? -1 : 1)] ?? null;
  }

  view.addEventListener("click", (event) => {
    const field = event.target.closest("button");
    if (field) zoom(Number(field.dataset.at));
  });
  view.addEventListener("focusin", (event) => say(Number(event.target.dataset.at)));
  view.addEventListener("mouseover", (event) => {
    if (event.target.dataset.at) say(Number(event.target.dataset.at));
  });
  view.addEventListener("keydown", (event) => {
    const at = Number(event.target.dataset.at);
    if (event.key === "Escape") {
      zoom(zoomed === null ? null : fields[zoomed][PARENT]);
    } else if (event.key.startsWith("Arrow")) {
      const next = neighbour(at, event.key);
      if (next !== null) focus(next);
    } else {
      return;
    }
    event.preventDefault();
  });
  by("whole").addEventListener("click", () => zoom(null));
  by("find").addEventListener("input", search);
  window.addEventListener("resize", draw);
  colours.listen(draw);
  draw();
}

// The timeline: a canvas for each thread, drawn anew at each zoom; what's in view is also listed below it.
{
  const HEIGHT = 17, LISTED = 10, LEAST = 50, MARKED = 50, ARROWS = 300;
  const view = by("timeline");
  // What is in view, in nanoseconds of what is shown: that's time since the start of the trace, without the pauses that are hidden.
  let from = data.begin, to = data.end;
  let hidden = [];

  // Where a time is shown.
  function place(time) {
    let low = 0, high = hidden.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (hidden[middle].from < time) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return time;
    const pause = hidden[low - 1];
    return time < pause.to ? pause.place : time - pause.to + pause.place;
  }

  // Which time is shown at a place; where a pause is hidden, that's its start.
  function timeOf(at) {
    let low = 0, high = hidden.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (hidden[middle].place < at) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? at : at - hidden[low - 1].place + hidden[low - 1].to;
  }

  // Hides the pauses between calls, or shows them; the same times stay in view.
  function hide(wanted) {
    const times = [timeOf(from), timeOf(to)];
    hidden = [];
    let shorter = 0;
    for (const [begin, end] of wanted ? data.pauses : []) {
      hidden.push({ from: begin, to: end, place: begin - shorter });
      shorter += end - begin;
    }
    look(place(times[0]), place(times[1]));
  }

  let hovered = null;
  const threads = data.threads.map((thread) => {
    const count = thread.bars.length / 4;
    const lane = { thread, start: new Float64Array(count), time: new Float64Array(count), depth: new Uint16Array(count), what: [], rows: [], title: "" };
    let at = 0, deepest = 0;
    for (let i = 0; i < count; i++) {
      at += thread.bars[i * 4];
      lane.start[i] = at;
      lane.time[i] = thread.bars[i * 4 + 1];
      lane.depth[i] = thread.bars[i * 4 + 2];
      lane.what.push(thread.bars[i * 4 + 3]);
      deepest = Math.max(deepest, lane.depth[i]);
      // Calls of one depth don't overlap, so they end in the order in which they start.
      (lane.rows[lane.depth[i]] ??= []).push(i);
    }
    for (let i = 0; i < thread.counts.length; i += 5) deepest = Math.max(deepest, thread.counts[i + 1]);
    lane.title = (thread.name || "thread") + " " + thread.tid + " of process " + thread.pid;
    const heading = document.createElement("h3");
    heading.textContent = lane.title + ": " + grouped(thread.calls) + (thread.calls === 1 ? " call" : " calls");
    lane.canvas = document.createElement("canvas");
    lane.canvas.setAttribute("role", "img");
    // Markers have a row of their own above the calls.
    lane.top = thread.marks.length ? HEIGHT : 0;
    lane.tall = lane.top + (deepest + 1) * HEIGHT + 4;
    lane.canvas.style.height = lane.tall + "px";
    view.append(heading, lane.canvas);
    return lane;
  });

  const drawn = document.createRange().createContextualFragment("<svg></svg>").firstChild;
  drawn.setAttribute("class", "arrows");
  drawn.setAttribute("aria-hidden", "true");
  if (data.arrows.length) view.append(drawn);

  // The first call of a row that ends later than a time.
  function firstAfter(lane, row, time) {
    let low = 0, high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.start[row[middle]] + lane.time[row[middle]] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function paint(lane) {
    const canvas = lane.canvas;
    const wide = canvas.clientWidth || 1200;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = wide * ratio;
    canvas.height = lane.tall * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11.5px system-ui, sans-serif";
    const scale = wide / (to - from);
    const text = getComputedStyle(view).color;
    counted(lane, pen, scale);
    for (const row of lane.rows) {
      if (!row) continue;
      let last = -1;
      const end = timeOf(to);
      for (let i = firstAfter(lane, row, timeOf(from)); i < row.length; i++) {
        const at = row[i];
        if (lane.start[at] > end) break;
        const left = Math.max((place(lane.start[at]) - from) * scale, 0);
        const right = Math.min((place(lane.start[at] + lane.time[at]) - from) * scale, wide);
        // What would be in a pixel that has been painted isn't painted again.
        if (right < last + 0.5 && i > 0) continue;
        last = Math.max(right, left + 1);
        pen.fillStyle = colours.of(lane.what[at]);
        pen.fillRect(left, lane.top + lane.depth[at] * HEIGHT + 2, Math.max(right - left - 0.5, 1), HEIGHT - 1);
        if (right - left > 30) label(pen, text, nameOf(lane.what[at]), left, right, lane.top + lane.depth[at] * HEIGHT);
      }
    }
    folded(lane, pen, scale);
    marked(lane, pen, scale, text);
  }

  // Arrows from threads that wake others to where these go on. If many are in view, nothing could be told apart.
  function arrows(wide) {
    const shown = data.arrows.filter(([[, wakes], [, goes]]) => place(goes) >= from && place(wakes) <= to);
    const scale = wide / (to - from);
    const at = ([lane, time], other) => {
      const { canvas, tall } = threads[lane];
      return Math.round((place(time) - from) * scale) + " " + (canvas.offsetTop + (lane < other[0] ? tall : 0));
    };
    // Its head points down or up, as its threads lie.
    const head = (one, other) => (one[0] < other[0] ? "m-3-6l3 6l3-6" : "m-3 6l3-6l3 6");
    const lines = shown.length > ARROWS ? [] : shown.map(([one, other]) => "M" + at(one, other) + "L" + at(other, one) + head(one, other));
    drawn.style.width = wide + "px";
    drawn.style.height = view.scrollHeight + "px";
    drawn.innerHTML = lines.map((line) => "<path d='" + line + "'/>").join("");
  }

  // A dashed line where a pause is hidden.
  function folded(lane, pen, scale) {
    pen.strokeStyle = getComputedStyle(by("range")).color;
    pen.setLineDash([3, 2]);
    pen.beginPath();
    for (const pause of hidden) {
      if (pause.place < from || pause.place > to) continue;
      const left = Math.min((pause.place - from) * scale + 0.5, lane.canvas.clientWidth - 1);
      pen.moveTo(left, 0);
      pen.lineTo(left, lane.tall);
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  // Markers: a line through all calls of the thread, and what they say, as far as there's room.
  function marked(lane, pen, scale, text) {
    const shown = marksInView(lane);
    shown.forEach(([time, said], i) => {
      const left = (place(time) - from) * scale;
      const next = i + 1 < shown.length ? (place(shown[i + 1][0]) - from) * scale : lane.canvas.clientWidth;
      pen.fillStyle = text;
      pen.fillRect(left, 0, 1.5, lane.tall);
      if (next - left > 30) label(pen, text, said, left, next, 0);
    });
  }

  function marksInView(lane) {
    return lane.thread.marks.filter(([time]) => place(time) >= from && place(time) <= to);
  }

  function label(pen, text, name, left, right, top) {
    const room = Math.floor((right - left - 6) / 6.5);
    pen.fillStyle = text;
    pen.fillText(name.length > room ? name.slice(0, room - 1) + "…" : name, left + 3, top + 14);
  }

  // Calls that the page has only numbers of: light, and hatched.
  function counted(lane, pen, scale) {
    const length = data.end / data.stretches;
    const counts = lane.thread.counts;
    pen.strokeStyle = dark() ? "#4b5563" : "#b6bec8";
    pen.beginPath();
    for (let i = 0; i < counts.length; i += 5) {
      const begin = counts[i] * length;
      if (place(begin + length) < from || place(begin) > to) continue;
      const top = lane.top + counts[i + 1] * HEIGHT + 2;
      const left = Math.max((place(begin) - from) * scale, 0);
      const right = Math.min((place(begin + length) - from) * scale, lane.canvas.clientWidth);
      for (let x = left; x < right; x += 4) {
        pen.moveTo(x, top + HEIGHT - 2);
        pen.lineTo(Math.min(x + 4, right), top);
      }
    }
    pen.stroke();
  }

  function inView() {
    const found = [];
    for (const lane of threads) {
      for (const row of lane.rows) {
        if (!row) continue;
        for (let i = firstAfter(lane, row, timeOf(from)); i < row.length && lane.start[row[i]] <= timeOf(to); i++) {
          found.push([lane, row[i]]);
        }
      }
    }
    return found.sort(([a, i], [b, j]) => b.time[j] - a.time[i] || a.start[i] - b.start[j]);
  }

  function list() {
    const fresh = document.createDocumentFragment();
    for (const [lane, at] of inView().slice(0, LISTED)) {
      const row = document.createElement("tr");
      const go = document.createElement("button");
      go.type = "button";
      go.textContent = nameOf(lane.what[at]);
      go.title = "Zoom to this call";
      go.addEventListener("click", () => show(lane.start[at], lane.start[at] + lane.time[at]));
      row.insertCell().append(go);
      row.insertCell().textContent = lane.title;
      for (const time of [lane.start[at], lane.time[at]]) {
        const cell = row.insertCell();
        cell.className = "number";
        cell.textContent = duration(time);
      }
      fresh.append(row);
    }
    by("longest").replaceChildren(fresh);
  }

  function listMarks() {
    const all = threads.flatMap((lane) => marksInView(lane).map((mark) => [lane, ...mark]));
    const fresh = document.createDocumentFragment();
    for (const [lane, time, said] of all.sort(([, a], [, b]) => a - b).slice(0, MARKED)) {
      const row = document.createElement("tr");
      const go = document.createElement("button");
      go.type = "button";
      go.textContent = said;
      go.title = "Zoom to this marker";
      const around = (to - from) / 10;
      go.addEventListener("click", () => show(time - around, time + around));
      row.insertCell().append(go);
      row.insertCell().textContent = lane.title;
      const cell = row.insertCell();
      cell.className = "number";
      cell.textContent = duration(time);
      fresh.append(row);
    }
    by("marks").hidden = !data.threads.some((thread) => thread.marks.length);
    by("marked").replaceChildren(fresh);
  }

  let waiting = 0;
  function draw() {
    const range = duration(timeOf(from)) + " to " + duration(timeOf(to));
    by("range").textContent = range;
    for (const lane of threads) {
      const count = "from " + range;
      lane.canvas.setAttribute("aria-label", "Calls of " + lane.title + ", " + count);
      paint(lane);
    }
    if (data.arrows.length) arrows(threads[0].canvas.clientWidth || 1200);
    clearTimeout(waiting);
    waiting = setTimeout(() => { list(); listMarks(); }, 60);
  }

  // Shows the times from one to another.
  function show(begin, end) {
    look(place(begin), place(end));
  }

  // Shows the places from one to another.
  function look(begin, end) {
    const [first, last] = [place(data.begin), place(data.end)];
    const length = Math.min(Math.max(end - begin, LEAST), last - first);
    from = Math.min(Math.max(begin - (length - (end - begin)) / 2, first), last - length);
    to = from + length;
    draw();
  }

  // Makes the view so many times as long, around a place.
  function zoom(factor, middle = (from + to) / 2) {
    look(middle - (middle - from) * factor, middle + (to - middle) * factor);
  }

  function move(part) {
    const step = (to - from) * part;
    look(from + step, to + step);
  }

  const actions = {
    in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25), all: () => show(data.begin, data.end),
  };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" };
  document.querySelectorAll("[data-zoom]").forEach((button) => {
    button.addEventListener("click", () => actions[button.dataset.zoom]());
  });
  view.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.ctrlKey || event.metaKey) return;
    actions[keys[event.key]]();
    event.preventDefault();
  });

  function placeAt(event) {
    const box = event.target.getBoundingClientRect();
    return from + ((event.clientX - box.left) / box.width) * (to - from);
  }

  view.addEventListener("wheel", (event) => {
    if (event.target.tagName !== "CANVAS") return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, placeAt(event));
  }, { passive: false });
  let dragged = null;
  view.addEventListener("pointerdown", (event) => {
    if (event.target.tagName === "CANVAS") dragged = event.clientX;
  });
  window.addEventListener("pointerup", () => (dragged = null));
  view.addEventListener("pointermove", (event) => {
    if (event.target.tagName !== "CANVAS") return;
    if (dragged !== null) {
      move((dragged - event.clientX) / event.target.clientWidth);
      dragged = event.clientX;
      return;
    }
    tell(threads.find((lane) => lane.canvas === event.target), timeOf(placeAt(event)), event.offsetY);
  });

  // Says what is under the pointer.
  function tell(lane, time, y) {
    const depth = Math.floor((y - 2 - lane.top) / HEIGHT);
    const row = lane.rows[depth] || [];
    const at = row[firstAfter(lane, row, time)];
    const mark = depth < 0 ? marksInView(lane).findLast(([began]) => began <= time) : undefined;
    if (mark) {
      hovered = mark[1] + ", at " + duration(mark[0]);
    } else if (at !== undefined && lane.start[at] <= time) {
      hovered = nameOf(lane.what[at]) + " (" + fileOf(lane.what[at]) + "): " + duration(lane.time[at]) + ", at " + duration(lane.start[at]);
    } else {
      const stretch = Math.floor((time / data.end) * data.stretches);
      const counts = lane.thread.counts;
      hovered = "";
      for (let i = 0; i < counts.length; i += 5) {
        if (counts[i] !== stretch || counts[i + 1] !== depth) continue;
        const length = data.end / data.stretches;
        hovered = grouped(counts[i + 2]) + " short calls, " + duration(counts[i + 3]) + " in all, the longest of " +
          nameOf(counts[i + 4]) + ": mcount replay --thread " + lane.thread.tid + " --from " +
          Math.floor(stretch * length) + "ns --to " + Math.ceil((stretch + 1) * length) + "ns";
      }
    }
    by("time-said").textContent = hovered;
  }

  const idle = data.pauses.reduce((sum, [begin, end]) => sum + end - begin, 0);
  by("idle").hidden = idle === 0;
  by("idle-said").textContent = "(" + duration(idle) + " without calls)";
  by("fold").addEventListener("change", () => hide(by("fold").checked));

  window.addEventListener("resize", draw);
  colours.listen(draw);
  draw();
  list();
  listMarks();
}

// The table of functions.
{
  const rows = data.functions;
  const moduleOf = (row) => data.modules[row[MODULE]];
  const sortedBy = (key, row) => (key === MODULE ? moduleOf(row) : row[key]);

  function cells(at) {
    const [name, , calls, ...times] = rows[at];
    const amounts = [grouped(calls), ...times.map((time) => (data.hasTimes ? duration(time) : "–"))];
    return [["function", name], ["module", moduleOf(rows[at])], ...amounts.map((text) => ["amount", text])];
  }

  const show = longTable({
    count: rows.length,
    cells,
    compare: (key, a, b) => textOrder(sortedBy(Number(key), rows[a]), sortedBy(Number(key), rows[b])),
    key: "4",
    isDown: (key) => Number(key) > MODULE,
  });

  function choose() {
    const looked = words(by("search").value);
    const order = [];
    rows.forEach((row, at) => {
      const where = (row[NAME] + " " + moduleOf(row)).toLowerCase();
      if (looked.every((word) => where.includes(word))) order.push(at);
    });
    show(order);
  }

  by("search").addEventListener("input", choose);
  choose();
}
