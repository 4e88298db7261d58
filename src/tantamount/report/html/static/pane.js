"use strict";
// One program in its pane: drawn as SVG, only what is in view; moved by dragging and scrolling, enlarged with Ctrl.
const panes = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const FAR = 0.42, LONG = 420, SMALLEST = 0.04, LARGEST = 2.5, BAND = 26;
  const TITLE = "600 13px system-ui, sans-serif";

  function element(name, attributes = {}, text = "") {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  }

  // Text that fits: cut in the middle, where names differ least.
  function fitted(text, room, font) {
    const wide = layout.width(text, font);
    if (wide <= room) return text;
    const keep = Math.max(4, Math.floor((text.length * room) / wide) - 1), left = Math.ceil(keep * 0.6);
    return `${text.slice(0, left)}…${text.slice(text.length - (keep - left))}`;
  }

  function curve(points) {
    const at = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
    if (points.length === 2) {
      const [[x0, y0], [x1, y1]] = points, bend = (y1 - y0) / 2;
      return `M${at(points[0])}C${at([x0, y0 + bend])} ${at([x1, y1 - bend])} ${at(points[1])}`;
    }
    let path = `M${at(points[0])}`;
    for (let k = 1; k < points.length - 1; k += 1) {
      const [a, b] = [points[k], points[k + 1]];
      const end = k === points.length - 2 ? b : [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
      path += `Q${at(a)} ${at(end)}`;
    }
    return path;
  }

  // `actions`: select(leaf), hover(leaf or null), moved().
  function make(host, actions) {
    const svg = element("svg", { class: "graph", tabindex: "0" });
    const world = element("g"), modules = element("g"), edges = element("g"), boxes = element("g"), bands = element("g");
    world.append(modules, edges, boxes, bands);
    svg.append(world);
    host.append(svg);
    const pane = { host, svg, model: null, view: { x: 0, y: 0, k: 1 }, drawing: null, selected: new Set(), marked: new Set() };
    const made = new Map(), titles = new Map(); // by what is drawn; by open module: its title
    let planned = false, far = false;

    pane.show = (model) => {
      pane.model = model;
      pane.refresh();
    };
    // Draws anew after modules were opened or closed; `anchor` stays where it is on the screen.
    pane.refresh = (anchor = null) => {
      const before = anchor && anchor.x !== undefined && { x: anchor.x, y: anchor.y };
      pane.drawing = layout.draw(pane.model);
      if (before) {
        pane.view.x += (before.x - anchor.x) * pane.view.k;
        pane.view.y += (before.y - anchor.y) * pane.view.k;
      }
      forget();
      pane.paint();
    };
    pane.paint = () => {
      if (planned) return;
      planned = true;
      requestAnimationFrame(() => { planned = false; paintNow(); });
    };
    pane.size = () => [host.clientWidth, host.clientHeight];
    pane.toScreen = (x, y) => [pane.view.x + x * pane.view.k, pane.view.y + y * pane.view.k];
    // The rectangle of a node, or of the closed module around it, within the pane.
    pane.rectangle = (leaf) => {
      const box = layout.standing(leaf), [x, y] = pane.toScreen(box.x, box.y);
      return { x, y, w: box.w * pane.view.k, h: box.h * pane.view.k };
    };
    pane.centre = (box, at = 0.5, scale = null) => {
      const [w, h] = pane.size(), target = box.kind === "node" ? layout.standing(box) : box;
      if (scale) pane.view.k = scale;
      pane.view.x = w / 2 - (target.x + target.w / 2) * pane.view.k;
      pane.view.y = h * at - (target.y + target.h / 2) * pane.view.k;
      pane.paint();
    };
    pane.fit = () => {
      const [w, h] = pane.size(), { width, height } = pane.drawing;
      const k = Math.min(1, (w - 24) / width, (h - 24) / height);
      pane.view = { k, x: (w - width * k) / 2, y: Math.max(12, (h - height * k) / 2) };
      pane.paint();
    };
    pane.zoom = (factor, x = host.clientWidth / 2, y = host.clientHeight / 2) => {
      const k = Math.min(LARGEST, Math.max(SMALLEST, pane.view.k * factor)), ratio = k / pane.view.k;
      pane.view = { k, x: x - (x - pane.view.x) * ratio, y: y - (y - pane.view.y) * ratio };
      pane.paint();
    };
    pane.toggle = (box) => {
      layout.setOpen(box, !box.open);
      pane.refresh(box);
    };
    pane.mark = (selected, marked) => {
      pane.selected = selected;
      pane.marked = marked;
      for (const [thing, made_] of made) if (thing.kind) style(thing, made_);
      for (const [box, title] of titles) style(box, title);
    };

    function forget() {
      made.clear();
      titles.clear();
      for (const layer of [modules, edges, boxes, bands]) layer.replaceChildren();
    }

    function paintNow() {
      if (!pane.drawing) return;
      const { x, y, k } = pane.view, [w, h] = pane.size();
      world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
      if (far !== k < FAR) { // texts that nobody can read are not even made
        far = !far;
        forget();
      }
      const seen = { left: (-x - 200) / k, top: (-y - 200) / k, right: (w - x + 200) / k, bottom: (h - y + 200) / k };
      const wanted = new Set();
      for (const edge of pane.drawing.edges) {
        const [first, last] = [edge.points[0], edge.points[edge.points.length - 1]];
        const low = Math.min(first[1], last[1]), high = Math.max(first[1], last[1]);
        if (high < seen.top || low > seen.bottom) continue;
        const xs = edge.points.map((p) => p[0]);
        if (Math.max(...xs) < seen.left || Math.min(...xs) > seen.right) continue;
        keep(edge, wanted, edges, drawEdge);
      }
      for (const box of pane.drawing.boxes) {
        if (box.x > seen.right || box.x + box.w < seen.left || box.y > seen.bottom || box.y + box.h < seen.top) continue;
        keep(box, wanted, box.kind === "module" && box.open ? depth(box.depth) : boxes, drawBox);
      }
      for (const [thing, old] of made) {
        if (!wanted.has(thing)) { old.remove(); made.delete(thing); }
      }
      for (const [box, old] of titles) {
        if (!wanted.has(box)) { old.remove(); titles.delete(box); }
      }
      for (const box of wanted) {
        if (box.kind === "module" && box.open && !far) placeTitle(box, -x / k, -y / k);
      }
      actions.moved();
    }

    // The title of an open module stays in view, below those of the modules around it, as long as the module is.
    function placeTitle(box, left, top) {
      if (!titles.has(box)) {
        titles.set(box, drawTitle(box));
        bands.append(titles.get(box));
      }
      const [band, words] = [titles.get(box), titles.get(box).lastChild];
      let level = 0;
      for (let outer = box.parent; outer && outer.kind === "module"; outer = outer.parent) level += outer.parent ? BAND : 0;
      const down = Math.min(Math.max(0, top + level - box.y), box.h - BAND);
      band.setAttribute("transform", `translate(${box.x} ${box.y + down})`);
      band.held = down > 0;
      style(box, band);
      const along = Math.min(Math.max(0, left - box.x), Math.max(0, box.w - box.titleWidth - 40));
      words.setAttribute("transform", `translate(${along} 0)`);
    }

    function drawTitle(box) {
      const group = element("g"), words = element("g"), [first, second] = box.text;
      const text = fitted(first, box.w - 40, TITLE);
      box.titleWidth = layout.width(text, TITLE);
      words.append(element("text", { class: "op", x: 26, y: 18 }, text), element("text", { class: "sign", x: 9, y: 18 }, "−"));
      group.append(element("title", {}, `${first}: ${second}`), element("rect", { class: "title", width: box.w, height: BAND, rx: 7 }), words);
      group.addEventListener("click", (event) => { if (!dragged(event)) pane.toggle(box); });
      style(box, group);
      return group;
    }

    // Open modules lie below what is inside of them, and all of them below edges.
    function depth(n) {
      while (modules.childElementCount <= n) modules.append(element("g"));
      return modules.children[n];
    }

    function keep(thing, wanted, layer, draw) {
      wanted.add(thing);
      if (made.has(thing)) return;
      const drawn = draw(thing);
      made.set(thing, drawn);
      layer.append(drawn);
    }

    function drawEdge(edge) {
      const [first, last] = [edge.points[0], edge.points[edge.points.length - 1]];
      const kind = edge.bad ? " bad" : last[1] - first[1] > LONG ? " long" : "";
      return element("path", { class: `edge${kind}`, d: curve(edge.points) });
    }

    function drawBox(box) {
      const group = element("g", { transform: `translate(${box.x} ${box.y})` });
      if (box.kind === "module") drawModule(group, box); else drawNode(group, box);
      style(box, group);
      return group;
    }

    function drawModule(group, box) {
      const { w, h } = box;
      if (!box.open) {
        group.append(element("rect", { class: "stack", x: 4, y: 4, width: w, height: h, rx: 7 }));
      }
      group.append(element("rect", { class: "body", width: w, height: h, rx: 7 }));
      const [first, second] = box.text;
      group.addEventListener("click", (event) => { if (!dragged(event)) pane.toggle(box); });
      if (far || box.open) return; // open ones have a title that moves
      group.append(element("text", { class: "op", x: 26, y: 18 }, fitted(first, w - 40, TITLE)));
      group.append(element("text", { class: "sign", x: 9, y: 18 }, "+"));
      group.append(element("text", { class: "name", x: 26, y: 33 }, second));
      const share = box.operators ? box.matched / box.operators : 0;
      group.append(element("rect", { class: "share", x: 0, y: h - 4, width: w * share, height: 4, rx: 2 }));
      if (box.culprit) group.append(badge(w, "≠"));
      group.append(element("title", {}, `${first}: ${second}`));
    }

    function drawNode(group, box) {
      const { w, h, node } = box, [first, second] = box.text;
      group.append(element("rect", { class: "body", width: w, height: h, rx: node.status === "input" ? 20 : 6 }));
      group.addEventListener("click", (event) => { if (!dragged(event)) actions.select(box); });
      group.addEventListener("pointerenter", () => actions.hover(box));
      group.addEventListener("pointerleave", () => actions.hover(null));
      if (far) return;
      const top = box.culprit ? 24 : 18, left = 12, font = `600 ${box.culprit ? 15 : 13}px system-ui, sans-serif`;
      group.append(element("text", { class: "op", x: left, y: top }, fitted(first, w - 30, font)));
      group.append(element("text", { class: "name", x: left, y: top + 16 }, fitted(second, w - 20, "11px system-ui, sans-serif")));
      node.outputs.slice(0, 1).forEach(([name, bad]) => {
        const more = node.outputs.length > 1 ? ` +${node.outputs.length - 1}` : "";
        const text = fitted(`${bad ? "✗" : "✓"} ${name}${more}`, w - 20, "600 11px system-ui, sans-serif");
        group.append(element("text", { class: bad ? "output bad" : "output", x: left, y: h - 8 }, text));
      });
      if (box.culprit) group.append(badge(w, "≠"));
      group.append(element("title", {}, `${node.line}${node.place ? `\n${node.place}` : ""}`));
    }

    function badge(w, text) {
      const group = element("g", { class: "badge", transform: `translate(${w - 4} 4)` });
      group.append(element("circle", { r: 11 }), element("text", { y: 5, "text-anchor": "middle" }, text));
      return group;
    }

    function style(box, group) {
      const parts = [box.kind];
      if (box.kind === "node") {
        parts.push(box.node.status);
        if (pane.selected.has(box)) parts.push("selected");
        if (pane.marked.has(box)) parts.push("marked");
      } else {
        parts.push(box.open ? "opened" : "closed");
        if (group.held) parts.push("held");
        if (box.culprit) parts.push("culprit");
        else if (box.bad) parts.push("after");
        else if (box.matched === box.operators && box.operators) parts.push("matched");
      }
      group.setAttribute("class", parts.join(" "));
    }

    // -- moving
    let start = null, moved = false;
    const dragged = () => moved;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = { x: event.clientX, y: event.clientY, view: { ...pane.view } };
      moved = false;
    });
    window.addEventListener("pointermove", (event) => {
      if (!start) return;
      const dx = event.clientX - start.x, dy = event.clientY - start.y;
      if (!moved && Math.hypot(dx, dy) < 4) return;
      moved = true;
      svg.classList.add("dragging");
      pane.view = { ...pane.view, x: start.view.x + dx, y: start.view.y + dy };
      pane.paint();
    });
    window.addEventListener("pointerup", () => { start = null; svg.classList.remove("dragging"); });
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 20 : 1;
      if (event.ctrlKey || event.metaKey) {
        const bounds = svg.getBoundingClientRect();
        pane.zoom(Math.exp(-event.deltaY * unit * 0.0025), event.clientX - bounds.left, event.clientY - bounds.top);
      } else {
        pane.view = { ...pane.view, x: pane.view.x - event.deltaX * unit, y: pane.view.y - event.deltaY * unit };
        pane.paint();
      }
    }, { passive: false });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      if (step) pane.view = { ...pane.view, x: pane.view.x + step[0], y: pane.view.y + step[1] };
      else if (event.key === "+" || event.key === "-") pane.zoom(event.key === "+" ? 1.2 : 1 / 1.2);
      else return;
      event.preventDefault();
      pane.paint();
    });
    return pane;
  }

  return { element, make };
})();
