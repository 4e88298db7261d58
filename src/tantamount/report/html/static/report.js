"use strict";
// The page: both programs, what is selected, the links between them, search. Text from graphs is only ever set as text.
(() => {
  const SMALL = 60, FIRST = 36; // boxes: a graph that is opened as a whole; of a larger one, what is opened besides the mismatch
  const find = (id) => document.getElementById(id);
  const root = document.documentElement;
  theme();
  const data = find("scene");
  if (!data) { ready(); return; }
  const scene = JSON.parse(data.textContent);
  const models = scene.programs.map((program) => layout.build(program));
  const related = relate();
  let shown = scene.focus.program; // the implementation's program that is drawn
  let selected = null, hovered = null;

  const actions = { select: (leaf) => select(leaf), hover: (leaf) => { hovered = leaf; mark(); drawLinks(); }, moved: () => drawLinks() };
  const left = panes.make(find("pane-specification"), actions);
  const right = panes.make(find("pane-implementation"), actions);
  const overlay = panes.element("svg", { class: "links" });
  find("graphs").append(overlay);
  const paneOf = (leaf) => (programOf(leaf) === 0 ? left : right);

  models.forEach((model, k) => openFirst(model, k));
  left.show(models[0]);
  right.show(models[shown]);
  tools();
  search();
  if (models.length > 2) choice();
  requestAnimationFrame(() => { home(); requestAnimationFrame(ready); });
  new ResizeObserver(() => { left.paint(); right.paint(); }).observe(find("graphs"));

  function ready() {
    root.dataset.ready = String(Math.round(performance.now()));
  }

  function theme() {
    const button = find("theme");
    button.addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    });
  }

  // For every leaf the related ones of other programs, with the relation.
  function relate() {
    const found = new Map();
    const add = (leaf, other, relation) => {
      if (!found.has(leaf)) found.set(leaf, []);
      found.get(leaf).push({ leaf: other, relation });
    };
    for (const [from, program, to, relation] of scene.links) {
      const a = models[0].leaves[from], b = models[program].leaves[to];
      add(a, b, relation);
      add(b, a, relation);
    }
    return found;
  }

  function programOf(leaf) {
    return models.findIndex((model) => model.leaves[leaf.index] === leaf);
  }

  function counterparts(leaf) {
    const all = related.get(leaf) || [];
    const culprit = leaf.culprit ? [culprits()[programOf(leaf) === 0 ? 1 : 0]].filter(Boolean) : [];
    return [...culprit.map((other) => ({ leaf: other, relation: "" })), ...all];
  }

  function here(others) {
    return others.filter(({ leaf }) => [0, shown].includes(programOf(leaf)));
  }

  function culprits() {
    const { specification, implementation, program } = scene.focus;
    return [specification === null ? null : models[0].leaves[specification],
            implementation === null || program !== shown ? null : models[program].leaves[implementation]];
  }

  // -- what is open at first: all of a small graph, else what is around the mismatch
  function openFirst(model, k) {
    const centres = model.leaves.filter((leaf) => leaf.culprit);
    if (!centres.length) centres.push(...model.leaves.filter((leaf) => leaf.node.status === "frontier").slice(0, 3));
    for (const centre of centres) {
      const near = [centre, ...centre.node.from.map((j) => model.leaves[j]), ...centre.users.slice(0, 6)];
      near.forEach((leaf) => layout.reveal(leaf));
    }
    if (k === 0) {
      const operands = centres.flatMap((centre) => centre.node.from.map((j) => model.leaves[j]));
      operands.flatMap((leaf) => related.get(leaf) || []).forEach(({ leaf }) => layout.reveal(leaf));
    }
    layout.fill(model, model.leaves.length <= SMALL ? SMALL : FIRST);
  }

  // The mismatch in view, both sides of it at one height; without one, both programs as large as they can be read.
  function home() {
    const [a, b] = culprits();
    const targets = [[left, a], [right, b]].map(([pane, culprit]) => [pane, culprit || broken(pane)]);
    for (const [pane, target] of targets) {
      if (target) pane.centre(target, 0.5, 1);
      else overview(pane);
    }
    const ranges = targets.filter(([, target]) => target).map(([pane, target]) => heights(pane, target));
    if (!ranges.length) return;
    const height = ranges.reduce((at, [low, high]) => Math.min(Math.max(at, low), high), left.size()[1] * 0.55);
    for (const [pane, target] of targets) {
      if (!target) continue;
      const { y, h } = pane.rectangle(target), room = pane.size()[0], spare = room - pane.drawing.width * pane.view.k;
      pane.view.y += height - (y + h / 2);
      pane.view.x = spare > 0 ? spare / 2 : Math.min(Math.max(pane.view.x, spare - 12), 12);
      pane.paint();
    }
  }

  function broken(pane) {
    const first = (wanted) => pane.model.leaves.find(wanted);
    return first((leaf) => leaf.node.status === "frontier") || first((leaf) => leaf.outputs);
  }

  function overview(pane) {
    const [w] = pane.size(), { width, boxes } = pane.drawing;
    const k = Math.min(1, Math.max(0.6, (w - 24) / width));
    const middle = k * width <= w ? width / 2 : boxes.reduce((sum, box) => sum + box.x + box.w / 2, 0) / boxes.length;
    pane.view = { k, x: w / 2 - middle * k, y: 16 };
    pane.paint();
  }

  // Between which heights in the pane a box can be so that the drawing leaves no room unused.
  function heights(pane, leaf) {
    const { y, h } = pane.rectangle(leaf), room = pane.size()[1], margin = 16;
    const spare = room - 2 * margin - pane.drawing.height * pane.view.k;
    const top = margin - pane.view.y + y + h / 2; // where it is if the drawing begins at the top
    return spare > 0 ? [top, top + spare] : [top + spare, top];
  }

  // A drawing that is not as tall as the pane is kept inside of it.
  function settle(pane) {
    const h = pane.size()[1], tall = pane.drawing.height * pane.view.k;
    if (tall < h - 32) pane.view.y = Math.min(Math.max(pane.view.y, 16), h - 16 - tall);
    pane.paint();
  }

  function align(a, b) {
    const [one, other] = [paneOf(a), paneOf(b)];
    const p = one.rectangle(a), q = other.rectangle(b);
    other.view.y += p.y + p.h / 2 - (q.y + q.h / 2);
    other.paint();
  }

  // -- selection
  function select(leaf, follow = true) {
    selected = leaf;
    const program = leaf && programOf(leaf);
    if (leaf && program > 0 && program !== shown) show(program);
    if (leaf) {
      const pane = paneOf(leaf);
      bring(pane, leaf);
      const other = here(counterparts(leaf))[0];
      if (other && follow) {
        const opposite = paneOf(other.leaf);
        if (layout.standing(other.leaf) !== other.leaf) {
          layout.reveal(other.leaf);
          opposite.refresh();
        }
        opposite.centre(other.leaf);
        align(leaf, other.leaf);
      }
    }
    mark();
    drawLinks();
    describe(leaf);
  }

  // Opens what is around a leaf and moves the pane only if the leaf is not in view.
  function bring(pane, leaf) {
    if (layout.standing(leaf) !== leaf) {
      layout.reveal(leaf);
      pane.refresh();
    }
    const [w, h] = pane.size(), r = pane.rectangle(leaf);
    if (pane.view.k < 0.5) pane.centre(leaf, 0.5, 1);
    else if (r.x < 0 || r.y < 0 || r.x + r.w > w || r.y + r.h > h) pane.centre(leaf);
  }

  function mark() {
    const chosen = new Set([selected, hovered].filter(Boolean));
    const others = new Set([...chosen].flatMap((leaf) => here(counterparts(leaf)).map((c) => c.leaf)));
    for (const pane of [left, right]) pane.mark(new Set([selected]), others);
  }

  // -- links from the specification to the implementation
  function drawLinks() {
    const bounds = find("graphs").getBoundingClientRect();
    const frames = new Map([left, right].map((pane) => [pane, pane.host.getBoundingClientRect()]));
    overlay.setAttribute("viewBox", `0 0 ${bounds.width} ${bounds.height}`);
    const drawn = new Map();
    const add = (leaf, other, kind) => {
      const [a, b] = programOf(leaf) === 0 ? [leaf, other] : [other, leaf];
      const ends = [end(left, a, bounds, frames, 1), end(right, b, bounds, frames, 0)];
      if (ends.every(Boolean)) drawn.set(`${ends}`, { ends, kind });
    };
    if (find("all-links").checked) {
      for (const [k, program, j] of scene.links) {
        if (program === shown) add(models[0].leaves[k], models[program].leaves[j], "all");
      }
    }
    const [a, b] = culprits();
    for (const leaf of [hovered, selected]) {
      if (leaf) here(counterparts(leaf)).forEach((c) => add(leaf, c.leaf, leaf.culprit && c.leaf.culprit ? "culprit" : "chosen"));
    }
    if (a && b) add(a, b, "culprit");
    overlay.replaceChildren(...[...drawn.values()].map(({ ends: [[x0, y0], [x1, y1]], kind }) => {
      const bend = Math.max(40, (x1 - x0) / 2);
      return panes.element("path", { class: `link ${kind}`, d: `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}` });
    }));
  }

  // Where a link meets a box: its right or left side, if that is in the pane.
  function end(pane, leaf, bounds, frames, side) {
    const frame = frames.get(pane), r = pane.rectangle(leaf);
    const x = r.x + (side ? r.w : 0), y = r.y + r.h / 2;
    if (y < 0 || y > frame.height || r.x + r.w < 0 || r.x > frame.width) return null;
    const inside = Math.min(frame.width, Math.max(0, x));
    return [inside + frame.left - bounds.left, y + frame.top - bounds.top];
  }

  // -- the tensor that is selected
  function describe(leaf) {
    const panel = find("tensor");
    panel.hidden = !leaf;
    if (!leaf) return;
    const { node } = leaf, program = programOf(leaf);
    const rows = [];
    const add = (name, ...content) => rows.push(make("dt", name), make("dd", "", ...content));
    add("is", text(meaning(node, program)));
    if (node.type) add("type", make("code", node.type));
    if (node.place || node.code) {
      add("source", text(node.place), ...(node.where ? [text(` in ${node.where}`)] : []), make("pre", node.code));
    }
    add("node", make("pre", node.line));
    if (node.form) add("form", make("pre", node.form));
    for (const { leaf: other, relation } of counterparts(leaf)) {
      const label = programOf(other) === 0 ? "specification" : "implementation";
      add(label, ...(relation && program === 0 ? [text(`${node.name} = ${relation} of `)] : []), link(other),
        ...(relation && program !== 0 ? [text(` = ${relation} of this`)] : []),
        ...(other.node.form ? [make("pre", other.node.form)] : []));
    }
    if (node.outputs.length) add("output", text(node.outputs.map(([name, bad]) => `${name} (${bad ? "not proved" : "proved"})`).join(", ")));
    if (node.from.length) add("reads", ...list(node.from.map((k) => models[program].leaves[k])));
    if (leaf.users.length) add("read by", ...list([...new Set(leaf.users)].slice(0, 12)));
    find("tensor-name").textContent = node.name;
    find("tensor-side").textContent = scene.programs[program].label;
    find("tensor-rows").replaceChildren(...rows);
    panel.scrollIntoView({ block: "nearest" });
  }

  function meaning(node, program) {
    const on = program === 0;
    return {
      matched: on ? "found in the implementation" : "a tensor of the specification",
      culprit: "where the two sides part",
      frontier: "without a counterpart, though what it reads has one",
      after: on ? "without a counterpart, on the way to an output that is not proved" : "computed from where the sides part",
      input: "an input",
      open: on ? "without a counterpart; no output that is not proved needs it" : "a step of its own: no tensor of the specification",
    }[node.status];
  }

  function make(tag, content = "", ...children) {
    const made = document.createElement(tag);
    if (content) made.textContent = content;
    made.append(...children);
    return made;
  }

  function text(content) {
    return document.createTextNode(content);
  }

  function link(leaf) {
    const button = make("button", leaf.node.name);
    button.type = "button";
    button.className = "to";
    button.addEventListener("click", () => select(leaf));
    return button;
  }

  function list(leaves) {
    return leaves.flatMap((leaf, k) => (k ? [text(" "), link(leaf)] : [link(leaf)]));
  }

  // -- programs, buttons, search
  function show(program) {
    shown = program;
    const choices = find("program");
    if (choices) choices.value = String(program);
    right.show(models[program]);
    right.fit();
    settle(right);
  }

  function choice() {
    const choices = find("program");
    choices.hidden = false;
    find("program-label").hidden = true;
    choices.replaceChildren(...scene.programs.slice(1).map((program, k) => {
      const option = make("option", program.label);
      option.value = String(k + 1);
      return option;
    }));
    choices.value = String(shown);
    choices.addEventListener("change", () => { show(Number(choices.value)); select(null); home(); });
  }

  function tools() {
    const each = (action) => () => { for (const pane of [left, right]) action(pane); };
    const on = (id, action) => find(id).addEventListener("click", action);
    on("home", () => { home(); });
    on("fit", each((pane) => pane.fit()));
    on("nearer", each((pane) => pane.zoom(1.25)));
    on("farther", each((pane) => pane.zoom(0.8)));
    on("open-all", each((pane) => {
      layout.setAll(pane.model, true);
      const still = [selected, ...culprits()].find((leaf) => leaf && paneOf(leaf) === pane);
      if (still) pane.refresh(still);
      else { pane.refresh(); overview(pane); }
    }));
    on("close-all", each((pane) => { layout.setAll(pane.model, false); pane.refresh(); pane.fit(); settle(pane); }));
    on("tensor-close", () => select(null));
    find("all-links").addEventListener("change", drawLinks);
    for (const card of document.querySelectorAll("[data-focus]")) {
      card.addEventListener("click", () => {
        const leaf = culprits()[card.dataset.focus === "specification" ? 0 : 1];
        if (leaf && !getSelection().toString()) select(leaf);
      });
    }
  }

  function search() {
    const field = find("search"), results = find("results");
    const close = () => { results.hidden = true; };
    const run = () => {
      const wanted = field.value.trim().toLowerCase();
      results.hidden = !wanted;
      if (!wanted) return;
      const found = [];
      for (const program of [0, shown, ...models.keys()]) {
        for (const leaf of models[program].leaves) {
          const { name, op, place, code, line } = leaf.node;
          const rank = [name, op, place, code, line].findIndex((where) => where.toLowerCase().includes(wanted));
          if (rank >= 0 && !found.some((other) => other.leaf === leaf)) {
            found.push({ leaf, program, rank: rank + (name.toLowerCase() === wanted ? -1 : 0) });
          }
          if (found.length > 400) break;
        }
      }
      found.sort((a, b) => a.rank - b.rank);
      results.replaceChildren(...found.slice(0, 40).map(({ leaf, program }) => {
        const row = make("button", "", make("b", leaf.node.name), text(` ${leaf.node.op} `), make("i", leaf.node.place));
        row.type = "button";
        row.className = leaf.node.status;
        row.prepend(make("span", program === 0 ? "spec" : "impl"));
        row.addEventListener("click", () => { close(); select(leaf); });
        return row;
      }));
      if (!found.length) results.replaceChildren(make("p", "no tensor, operator or line of code"));
    };
    field.addEventListener("input", run);
    field.addEventListener("focus", run);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") results.querySelector("button")?.click();
      if (event.key === "Escape") { close(); field.blur(); }
    });
    document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".search")) close(); });
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
      else if (event.key === "Escape" && document.activeElement !== field) select(null);
    });
  }
})();
