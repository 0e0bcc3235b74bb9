"use strict";
// Reads the messages of the block `data` and draws them. All texts of the record go through `textContent`.
(() => {
  const [TIME, FROM, KIND, NAME, ID, PAIR, BYTES, BROKEN, TEXT] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const [REQUEST, NOTIFICATION, RESULT, ERROR, INVALID, LOG] = [0, 1, 2, 3, 4, 5];
  const KINDS = ["request", "notification", "result", "error", "no message", "log"];
  const ROW = 26;
  const OVERVIEW = 96;
  const MIN_FOLD = 4;
  // If more rows than this are left, neighbours are joined. Zooming takes them apart.
  const MOST_ROWS = 400;
  const data = JSON.parse(document.getElementById("data").textContent);
  const { names, messages } = data;
  const count = messages.length;
  const lastTime = count ? messages[count - 1][TIME] : 0;
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";

  const svgElement = (name, attributes, parent, text) => {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    parent.appendChild(element);
    return element;
  };
  const element = (name, text, parent) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  };
  const duration = (micros) => {
    if (micros < 1000) return `${micros} µs`;
    if (micros < 1e6) return `${(micros / 1e3).toFixed(micros < 1e4 ? 2 : 1)} ms`;
    return `${(micros / 1e6).toFixed(micros < 1e7 ? 2 : 1)} s`;
  };
  const size = (bytes) => {
    if (bytes < 1024) return `${bytes} B`;
    return bytes < 1 << 20 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1048576).toFixed(1)} MiB`;
  };
  const latency = (message) => (message[KIND] === RESULT || message[KIND] === ERROR) && message[PAIR] >= 0
    ? message[TIME] - messages[message[PAIR]][TIME] : -1;
  const isBad = (message) => message[KIND] === ERROR || message[KIND] === INVALID || message[BROKEN].length > 0;
  const percentile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];

  // How many requests are in flight after each message.
  const inFlight = new Uint32Array(count);
  let flying = 0;
  let mostFlying = 0;
  messages.forEach((message, index) => {
    if (message[KIND] === REQUEST && message[PAIR] >= 0) flying += 1;
    if (latency(message) >= 0) flying -= 1;
    inFlight[index] = flying;
    mostFlying = Math.max(mostFlying, flying);
  });

  // State.
  let from = 0;
  let to = Math.max(lastTime, 1);
  let rows = [];
  let folded = count > 200;
  let selected = -1;
  const opened = new Set();

  const lowerBound = (time) => {
    let [low, high] = [0, count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (messages[middle][TIME] < time) low = middle + 1; else high = middle;
    }
    return low;
  };
  const matches = (message, wanted) => !wanted
    || names[message[NAME]].toLowerCase().includes(wanted)
    || message[ID].toLowerCase() === wanted
    || KINDS[message[KIND]] === wanted
    || message[TEXT].toLowerCase().includes(wanted)
    || message[BROKEN].some((finding) => finding.toLowerCase().includes(wanted));

  // Puts messages with one name that follow each other into one row. Errors and broken rules are never folded.
  const build = () => {
    const wanted = $("filter").value.trim().toLowerCase();
    rows = [];
    let group = null;
    const close = () => {
      if (!group) return;
      if (group.members.length >= MIN_FOLD && !opened.has(group.members[0])) rows.push({ fold: group.members });
      else for (const index of group.members) rows.push({ index, group: group.members[0], of: group.members.length });
      group = null;
    };
    for (let index = lowerBound(from); index < count && messages[index][TIME] <= to; index += 1) {
      const message = messages[index];
      if (!matches(message, wanted)) continue;
      if (!folded || isBad(message)) {
        close();
        rows.push({ index });
        continue;
      }
      if (!group || group.name !== message[NAME]) {
        close();
        group = { name: message[NAME], members: [] };
      }
      group.members.push(index);
    }
    close();
    if (folded && rows.length > MOST_ROWS) join();
    $("spacer").style.height = `${rows.length * ROW + 8}px`;
    $("shown").textContent = `${rows.length} rows, ${duration(from)} to ${duration(to)}`;
    draw();
    overview();
  };

  const join = () => {
    const each = Math.ceil(rows.length / MOST_ROWS);
    const joined = [];
    for (let at = 0; at < rows.length; at += each) {
      const members = rows.slice(at, at + each).flatMap((row) => row.fold || [row.index]);
      joined.push({ span: members });
    }
    rows = joined;
  };

  const spanText = (members) => {
    const counts = new Map();
    let problems = 0;
    for (const index of members) {
      counts.set(messages[index][NAME], (counts.get(messages[index][NAME]) || 0) + 1);
      if (isBad(messages[index])) problems += 1;
    }
    const parts = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([name, number]) => `${names[name]} × ${number}`);
    if (counts.size > 3) parts.push(`${counts.size - 3} more methods`);
    if (problems) parts.unshift(`${problems} problem${problems > 1 ? "s" : ""}`);
    return { text: parts.join(", "), problems };
  };

  const foldText = (members) => {
    const counts = [0, 0, 0, 0, 0, 0];
    const latencies = [];
    for (const index of members) {
      counts[messages[index][KIND]] += 1;
      if (latency(messages[index]) >= 0) latencies.push(latency(messages[index]));
    }
    const parts = counts.map((number, kind) => number && `${number} ${KINDS[kind]}${number > 1 ? "s" : ""}`).filter(Boolean);
    let text = `${names[messages[members[0]][NAME]]}: ${parts.join(", ")}`;
    if (latencies.length) {
      latencies.sort((a, b) => a - b);
      text += `, median ${duration(percentile(latencies, 0.5))}, slowest ${duration(latencies[latencies.length - 1])}`;
    }
    return text;
  };

  const shorten = (text, pixels) => {
    const most = Math.max(8, Math.floor(pixels / 6.7));
    return text.length > most ? `${text.slice(0, most - 1)}…` : text;
  };

  const drawRow = (row, y, client, server, svg) => {
    const group = svgElement("g", { class: "row", transform: `translate(0 ${y})` }, svg);
    svgElement("rect", { x: 0, y: 0, width: "100%", height: ROW, class: "hit" }, group);
    const middle = (client + server) / 2;
    if (row.span) {
      const { text, problems } = spanText(row.span);
      const last = messages[row.span[row.span.length - 1]][TIME];
      const first = messages[row.span[0]][TIME];
      if (problems) group.classList.add("bad");
      svgElement("text", { x: client - 12, y: 17, class: "time", "text-anchor": "end" }, group, duration(first));
      svgElement("rect", { x: client, y: 3, width: server - client, height: ROW - 6, rx: 4, class: "fold" }, group);
      svgElement("text", { x: middle, y: 17, "text-anchor": "middle" }, group, shorten(`⊕ ${text}`, server - client));
      svgElement("text", { x: server + 12, y: 17, class: "time" }, group, `× ${row.span.length}, ${duration(last - first)}`);
      group.addEventListener("click", () => {
        [from, to] = [first, Math.max(last, first + 1)];
        $("rows").scrollTop = 0;
        build();
      });
      return;
    }
    if (row.fold) {
      const first = messages[row.fold[0]];
      svgElement("text", { x: client - 12, y: 17, class: "time", "text-anchor": "end" }, group, duration(first[TIME]));
      svgElement("rect", { x: client, y: 3, width: server - client, height: ROW - 6, rx: 4, class: "fold" }, group);
      svgElement("text", { x: middle, y: 17, "text-anchor": "middle" }, group, shorten(`▸ ${foldText(row.fold)}`, server - client));
      svgElement("text", { x: server + 12, y: 17, class: "time" }, group, `× ${row.fold.length}`);
      group.addEventListener("click", () => { opened.add(row.fold[0]); build(); });
      return;
    }
    const message = messages[row.index];
    const isClient = message[FROM] === 0;
    const pair = selected >= 0 && messages[selected][PAIR] === row.index;
    const kind = isBad(message) ? "bad" : ["request", "notification", "result", "bad", "bad", "log"][message[KIND]];
    group.classList.add(kind);
    if (row.index === selected || pair) group.classList.add("selected");
    svgElement("text", { x: client - 12, y: 20, class: "time", "text-anchor": "end" }, group, duration(message[TIME]));
    const [x1, x2] = isClient ? [client, server] : [server, client];
    if (message[KIND] !== LOG) {
      const head = isClient ? -7 : 7;
      svgElement("path", { d: `M${x1} 18H${x2}M${x2 + head} 14L${x2} 18L${x2 + head} 22`, class: "arrow" }, group);
    }
    const id = message[ID] && ` ${message[ID]}`;
    const rules = message[BROKEN].length ? ` — ${message[BROKEN].join("; ")}` : "";
    const label = message[KIND] === LOG ? message[TEXT]
      : `${message[KIND] === RESULT ? "" : message[KIND] === ERROR ? "error: " : ""}${names[message[NAME]]}${id}${rules}`;
    svgElement("text", { x: middle, y: 13, "text-anchor": "middle" }, group, shorten(label, server - client - 16));
    const took = latency(message);
    const details = took >= 0 ? `${duration(took)}, ${size(message[BYTES])}` : size(message[BYTES]);
    svgElement("text", { x: server + 12, y: 20, class: "time" }, group, details);
    const width = Math.min(40, inFlight[row.index] * 3);
    if (width) svgElement("rect", { x: server - width, y: 23, width, height: 3, class: "flight" }, group);
    group.addEventListener("click", () => { selected = row.index; show(row); draw(); });
  };

  const draw = () => {
    const box = $("rows");
    const svg = $("diagram");
    const [width, height] = [box.clientWidth, box.clientHeight];
    const [client, server] = [104, Math.max(width - 150, 260)];
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    svg.replaceChildren();
    for (const x of [client, server]) svgElement("line", { x1: x, x2: x, y1: 0, y2: height, class: "life" }, svg);
    const first = Math.floor(box.scrollTop / ROW);
    for (let at = first; at < Math.min(rows.length, first + Math.ceil(height / ROW) + 1); at += 1) {
      drawRow(rows[at], at * ROW - box.scrollTop, client, server, svg);
    }
    $("client").style.left = `${client}px`;
    $("server").style.left = `${server}px`;
  };

  const show = (row) => {
    const message = messages[row.index];
    const panel = $("details");
    panel.hidden = false;
    panel.replaceChildren();
    const close = element("button", "Close", panel);
    close.addEventListener("click", () => { panel.hidden = true; selected = -1; draw(); });
    if (message[PAIR] >= 0) {
      const other = element("button", message[KIND] === REQUEST ? "Go to the response" : "Go to the request", panel);
      other.addEventListener("click", () => goTo(message[PAIR]));
    }
    if (row.of >= MIN_FOLD) {
      const fold = element("button", "Fold again", panel);
      fold.addEventListener("click", () => { opened.delete(row.group); build(); });
    }
    element("h2", `${KINDS[message[KIND]]} ${names[message[NAME]]} ${message[ID]}`, panel);
    const took = latency(message);
    const facts = [`message ${row.index} of the ${message[FROM] ? "server" : "client"}`, duration(message[TIME]), `${message[BYTES]} bytes`];
    if (took >= 0) facts.push(`${duration(took)} after the request`);
    if (message[KIND] === REQUEST && message[PAIR] < 0) facts.push("without a response");
    element("p", facts.join(", "), panel);
    for (const finding of message[BROKEN]) element("p", finding, panel).className = "broken";
    element("pre", message[TEXT], panel);
  };

  const goTo = (index) => {
    const time = messages[index][TIME];
    if (time < from || time > to) [from, to] = [0, Math.max(lastTime, 1)];
    $("filter").value = "";
    const containing = () => rows.findIndex((row) => row.index === index || (row.fold || row.span || []).includes(index));
    build();
    let at = containing();
    if (at >= 0 && rows[at].span) {
      from = messages[Math.max(0, index - 80)][TIME];
      to = Math.max(messages[Math.min(count - 1, index + 80)][TIME], from + 1);
      build();
      at = containing();
    }
    if (at >= 0 && rows[at].fold) {
      opened.add(rows[at].fold[0]);
      build();
      at = containing();
    }
    if (at < 0) return;
    selected = index;
    $("rows").scrollTop = Math.max(0, at * ROW - $("rows").clientHeight / 2);
    show(rows[at]);
    draw();
  };

  // The whole time, with the part that is shown.
  const overview = () => {
    const canvas = $("overview");
    const scale = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    canvas.width = width * scale;
    canvas.height = OVERVIEW * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name);
    const bins = Math.max(1, Math.floor(width / 2));
    const sent = [new Uint32Array(bins), new Uint32Array(bins)];
    const bad = new Uint8Array(bins);
    const most = new Uint32Array(bins);
    const whole = Math.max(lastTime, 1);
    messages.forEach((message, index) => {
      const bin = Math.min(bins - 1, Math.floor((message[TIME] / whole) * bins));
      sent[message[FROM]][bin] += 1;
      if (isBad(message)) bad[bin] = 1;
      most[bin] = Math.max(most[bin], inFlight[index]);
    });
    const highest = Math.max(1, sent[0].reduce((a, b) => Math.max(a, b), 0), sent[1].reduce((a, b) => Math.max(a, b), 0));
    const half = OVERVIEW / 2;
    context.fillStyle = color("--select");
    context.fillRect((from / whole) * width, 0, Math.max(2, ((to - from) / whole) * width), OVERVIEW);
    const bar = (number) => (number ? Math.max(1, (Math.log1p(number) / Math.log1p(highest)) * (half - 6)) : 0);
    for (let bin = 0; bin < bins; bin += 1) {
      const x = bin * 2;
      context.fillStyle = color("--client");
      context.fillRect(x, half - bar(sent[0][bin]), 2, bar(sent[0][bin]));
      context.fillStyle = color("--server");
      context.fillRect(x, half, 2, bar(sent[1][bin]));
      if (bad[bin]) {
        context.fillStyle = color("--bad");
        context.fillRect(x - 1, 0, 4, 5);
      }
      if (mostFlying && most[bin]) {
        context.fillStyle = color("--flight");
        context.fillRect(x, OVERVIEW - 1 - (most[bin] / mostFlying) * 18, 2, 2);
      }
    }
  };

  const zoom = (factor, center) => {
    const span = Math.min(Math.max(lastTime, 1), Math.max(10, (to - from) * factor));
    from = Math.max(0, Math.min(center - (center - from) * factor, Math.max(lastTime, 1) - span));
    to = from + span;
    $("rows").scrollTop = 0;
    build();
  };

  const bars = (parent, title, values, label) => {
    const box = element("figure", undefined, parent);
    element("figcaption", title, box);
    if (!values.length) { element("p", "none", box); return; }
    const bins = new Map();
    for (const value of values) {
      const bin = value < 1 ? 0 : Math.floor(Math.log2(value)) + 1;
      bins.set(bin, (bins.get(bin) || 0) + 1);
    }
    const first = Math.min(...bins.keys());
    const last = Math.max(...bins.keys());
    const highest = Math.max(...bins.values());
    const wide = Math.max(12, Math.min(44, 420 / (last - first + 1)));
    const svg = svgElement("svg", { width: (last - first + 1) * wide, height: 104, role: "img" }, box);
    for (let bin = first; bin <= last; bin += 1) {
      const number = bins.get(bin) || 0;
      const high = (number / highest) * 70;
      const x = (bin - first) * wide;
      const rect = svgElement("rect", { x: x + 1, y: 84 - high, width: wide - 2, height: high, class: "bar" }, svg);
      svgElement("title", {}, rect, `${number}: ${label(bin ? 2 ** (bin - 1) : 0)} to ${label(2 ** bin)}`);
      const short = number < 1000 ? number : number < 10000 ? `${(number / 1000).toFixed(1)}k` : `${Math.round(number / 1000)}k`;
      const fits = String(short).length * 6 < wide;
      if (number && fits) svgElement("text", { x: x + wide / 2, y: 80 - high, class: "small", "text-anchor": "middle" }, svg, short);
      if ((bin - first) % Math.ceil(56 / wide) === 0) {
        svgElement("text", { x, y: 98, class: "small" }, svg, label(bin ? 2 ** (bin - 1) : 0));
      }
    }
  };

  const statistics = () => {
    const methods = new Map();
    const latencies = [];
    messages.forEach((message) => {
      const of = methods.get(message[NAME]) || { count: 0, errors: 0, open: 0, bytes: 0, latencies: [] };
      methods.set(message[NAME], of);
      of.count += 1;
      of.bytes += message[BYTES];
      if (message[KIND] === ERROR) of.errors += 1;
      if (message[KIND] === REQUEST && message[PAIR] < 0) of.open += 1;
      if (latency(message) >= 0) {
        of.latencies.push(latency(message));
        latencies.push(latency(message));
      }
    });
    const box = $("statistics");
    bars(box, "Latency", latencies, (value) => duration(Math.round(value)));
    bars(box, "Sizes", messages.map((message) => message[BYTES]), (value) => size(Math.round(value)));
    const table = element("table", undefined, box);
    const head = element("tr", undefined, element("thead", undefined, table));
    for (const title of ["", "messages", "errors", "open", "median", "99 %", "slowest", "bytes"]) element("th", title, head);
    const body = element("tbody", undefined, table);
    const sorted = [...methods].sort((a, b) => b[1].count - a[1].count).slice(0, 30);
    for (const [name, of] of sorted) {
      of.latencies.sort((a, b) => a - b);
      const times = of.latencies.length
        ? [percentile(of.latencies, 0.5), percentile(of.latencies, 0.99), of.latencies[of.latencies.length - 1]].map(duration)
        : ["", "", ""];
      const row = element("tr", undefined, body);
      for (const cell of [names[name], of.count, of.errors || "", of.open || "", ...times, size(of.bytes)]) element("td", cell, row);
      row.addEventListener("click", () => { $("filter").value = names[name]; build(); });
    }
  };

  let pressed = -1;
  const timeAt = (event) => (event.offsetX / $("overview").clientWidth) * Math.max(lastTime, 1);
  $("overview").addEventListener("mousedown", (event) => { pressed = timeAt(event); });
  $("overview").addEventListener("mouseup", (event) => {
    const time = timeAt(event);
    if (pressed >= 0 && Math.abs(time - pressed) > Math.max(lastTime, 1) / 400) {
      [from, to] = [Math.min(pressed, time), Math.max(pressed, time)];
      $("rows").scrollTop = 0;
      build();
    }
    pressed = -1;
  });
  $("overview").addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.4 : 1 / 1.4, timeAt(event));
  }, { passive: false });
  $("in").addEventListener("click", () => zoom(0.5, (from + to) / 2));
  $("out").addEventListener("click", () => zoom(2, (from + to) / 2));
  $("all").addEventListener("click", () => { [from, to] = [0, Math.max(lastTime, 1)]; build(); });
  $("fold").checked = folded;
  $("fold").addEventListener("change", (event) => { folded = event.target.checked; opened.clear(); build(); });
  $("filter").addEventListener("input", () => { $("rows").scrollTop = 0; build(); });
  $("problems").addEventListener("click", () => {
    const start = selected + 1;
    for (let step = 0; step < count; step += 1) {
      const index = (start + step) % count;
      if (isBad(messages[index])) { goTo(index); return; }
    }
  });
  $("rows").addEventListener("scroll", draw);
  window.addEventListener("resize", () => { draw(); overview(); });
  $("problems").disabled = !messages.some(isBad);
  statistics();
  build();
})();
