"use strict";
// One program as boxes: nodes inside modules inside modules. Every open module is laid out by dagre on its own and is
// one box to what is around it, so that the cost grows with what is open, and a module that stays as it is costs nothing.
const layout = (() => {
  const PAD = 14, TITLE = 30, NODE_HEIGHT = 42, WIDEST = 250;
  const BAD = new Set(["culprit", "after", "frontier"]);
  const context = document.createElement("canvas").getContext("2d");

  function width(text, font) {
    context.font = font;
    return context.measureText(text).width;
  }

  // The boxes of a program, all modules closed.
  function build(program) {
    const leaves = [];
    const root = module({ name: "", children: program.modules }, null, program, leaves);
    root.open = true;
    for (const leaf of leaves) {
      for (const k of leaf.node.from) connect(leaves[k], leaf);
    }
    return { program, root, leaves };
  }

  function module(given, parent, program, leaves) {
    const box = { kind: "module", name: given.name, parent, depth: parent ? parent.depth + 1 : 0, open: false,
                  children: [], edges: new Map(), count: 0, matched: 0, operators: 0, bad: 0, culprit: false, outputs: 0 };
    for (const child of given.children) {
      const inner = typeof child === "number"
        ? leaf(program.nodes[child], child, box, leaves) : module(child, box, program, leaves);
      box.children.push(inner);
      for (const key of ["count", "matched", "operators", "bad", "outputs"]) box[key] += inner[key];
      box.culprit ||= inner.culprit;
    }
    return box;
  }

  function leaf(node, index, parent, leaves) {
    const operator = node.status !== "input" ? 1 : 0;
    return leaves[index] = {
      kind: "node", node, index, parent, depth: parent.depth + 1, count: 1, operators: operator, users: [],
      matched: operator && node.status === "matched" ? 1 : 0, bad: BAD.has(node.status) ? 1 : 0,
      culprit: node.status === "culprit", outputs: node.outputs.filter(([, bad]) => bad).length,
    };
  }

  // An edge belongs to the innermost module around both ends, between two children of it.
  function connect(from, to) {
    from.users.push(to);
    let a = from, b = to;
    while (a.parent !== b.parent) {
      if (a.depth >= b.depth) a = a.parent; else b = b.parent;
    }
    if (a === b) return;
    const edges = a.parent.edges;
    if (!edges.has(a)) edges.set(a, new Map());
    const row = edges.get(a);
    if (!row.has(b)) row.set(b, []);
    row.get(b).push([from, to]);
  }

  function shown(box) {
    return box.kind === "node" || !box.open;
  }

  // What stands for a node in the drawing: itself, or the outermost closed module around it.
  function standing(box) {
    let found = box;
    for (let b = box.parent; b; b = b.parent) if (!b.open) found = b;
    return found;
  }

  function setOpen(box, open) {
    box.open = open;
    for (let b = box; b; b = b.parent) b.arranged = false;
  }

  function reveal(box) {
    for (let b = box.parent; b; b = b.parent) if (!b.open) setOpen(b, true);
  }

  function labels(box) {
    if (box.kind === "module") {
      const all = box.matched === box.operators;
      const what = `${box.operators} operator${box.operators === 1 ? "" : "s"}`;
      const state = all ? "all matched" : `${box.matched} matched`;
      return [box.name, box.operators ? `${what}, ${state}` : `${box.count} inputs`];
    }
    const { op, name, type, from } = box.node;
    const shape = type.slice(type.indexOf("["));
    return from.length ? [op, `${name}  ${shape}`] : [name, op === "input" ? type : `${op}  ${shape}`];
  }

  // The size of a node or a closed module.
  function measure(box) {
    if (box.measured) {
      [box.w, box.h] = box.measured;
      return;
    }
    box.text = labels(box);
    const [first, second] = box.text;
    const ends = box.kind === "node" && box.node.outputs.length ? `  ✗ ${box.node.outputs[0][0]} +9` : "";
    const size = box.kind === "node" && box.culprit ? 15 : 13;
    const wide = Math.max(width(first, `600 ${size}px system-ui, sans-serif`), width(second, "11px system-ui, sans-serif"),
                          width(ends, "600 11px system-ui, sans-serif"));
    box.w = Math.min(WIDEST, Math.max(84, Math.ceil(wide) + 40));
    box.h = NODE_HEIGHT;
    if (box.kind === "node" && box.node.outputs.length) box.h += 18;
    if (box.culprit && box.kind === "node") { box.w = Math.max(box.w, 190); box.h += 16; }
    box.measured = [box.w, box.h];
  }

  // Sizes, and the places of children inside their module.
  function arrange(box) {
    if (shown(box)) return measure(box);
    if (box.arranged) return;
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 30, edgesep: 8 });
    box.children.forEach((child, k) => {
      arrange(child);
      child.key = String(k);
      graph.setNode(child.key, { width: child.w, height: child.h });
    });
    for (const [a, row] of box.edges) {
      for (const [b, pairs] of row) graph.setEdge(a.key, b.key, { weight: pairs.some(isBad) ? 4 : 1 });
    }
    dagre.layout(graph);
    const { width: w = 0, height: h = 0 } = graph.graph();
    const side = box.parent ? PAD : 0, top = box.parent ? TITLE : 0;
    for (const child of box.children) {
      const { x, y } = graph.node(child.key);
      child.dx = x - child.w / 2 + side;
      child.dy = y - child.h / 2 + top;
    }
    box.routes = [];
    for (const [a, row] of box.edges) {
      for (const [b, pairs] of row) {
        const points = graph.edge(a.key, b.key).points.map(({ x, y }) => [x + side, y + top]);
        box.routes.push({ a, b, pairs, points });
      }
    }
    box.text = labels(box);
    box.w = Math.max(w + 2 * side, box.parent ? width(box.name, "600 13px system-ui, sans-serif") + 60 : 0);
    box.h = h + top + (box.parent ? PAD : 0);
    box.arranged = true;
  }

  function isBad([from, to]) {
    return BAD.has(from.node.status) && BAD.has(to.node.status);
  }

  // Everything to be drawn, at its place: boxes (open modules before what is inside) and edges.
  function draw(model) {
    arrange(model.root);
    const boxes = [], edges = [];
    place(model.root, 0, 0, boxes, edges);
    return { boxes, edges, width: model.root.w, height: model.root.h };
  }

  function place(box, x, y, boxes, edges) {
    box.x = x;
    box.y = y;
    if (box.parent) boxes.push(box);
    if (shown(box)) return;
    for (const child of box.children) place(child, x + child.dx, y + child.dy, boxes, edges);
    for (const { a, b, pairs, points } of box.routes) {
      const middle = points.slice(1, -1).map(([px, py]) => [px + x, py + y]);
      const drawn = new Map();
      for (const pair of pairs) {
        const from = standing(pair[0]), to = standing(pair[1]);
        if (!drawn.has(from)) drawn.set(from, new Map());
        drawn.get(from).set(to, drawn.get(from).get(to) || isBad(pair));
      }
      for (const [from, row] of drawn) {
        for (const [to, bad] of row) {
          const outer = [[a, from], [b, to]].map(([box_, end]) => box_ === end);
          const start = outer[0] ? [points[0][0] + x, points[0][1] + y] : [from.x + from.w / 2, from.y + from.h];
          const last = points[points.length - 1];
          const end = outer[1] ? [last[0] + x, last[1] + y] : [to.x + to.w / 2, to.y];
          edges.push({ from, to, bad, points: [start, ...middle, end] });
        }
      }
    }
  }

  // Opens modules, those with most in them first, as long as the drawing stays small.
  function fill(model, budget) {
    for (;;) {
      const closed = [];
      let count = 0;
      const visit = (box) => {
        if (shown(box)) { count += 1; if (box.kind === "module") closed.push(box); }
        else box.children.forEach(visit);
      };
      visit(model.root);
      const next = closed.filter((box) => count + box.children.length - 1 <= budget).sort((a, b) => b.count - a.count)[0];
      if (!next) return;
      setOpen(next, true);
    }
  }

  function setAll(model, open) {
    const visit = (box) => {
      if (box.kind !== "module") return;
      box.children.forEach(visit);
      box.arranged = false;
      box.open = open || !box.parent;
    };
    visit(model.root);
  }

  return { build, draw, fill, reveal, setAll, setOpen, standing, width };
})();
