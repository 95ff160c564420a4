// Draws the charts of the page in the colours of the theme, and creates their buttons and tables. Requires that
// plotly.js and theme.js are loaded, and that the element #charts contains the charts as JSON. Accesses no network.
(() => {
  "use strict";
  const { label, charts } = JSON.parse(document.getElementById("charts").textContent);
  const root = document.documentElement;
  const FONT = 'system-ui, -apple-system, "Segoe UI", "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif';
  const NARROW_LEGEND_PX = 8; // additional height per legend entry, since a narrow screen has one entry per line
  const views = [];

  // ---- colours: "@name" and "@name:opacity" stand for the variables of style.css

  function readPalette(theme) {
    const previousTheme = root.dataset.theme;
    root.dataset.theme = theme;
    const style = getComputedStyle(root);
    const colors = {};
    for (const name of ["paper", "ink", "dim", "line", "grid", "mark", "s1", "s2", "s3", "s4", "s5", "s6", "s7"])
      colors[name] = style.getPropertyValue(`--${name}`).trim();
    root.dataset.theme = previousTheme;
    return colors;
  }

  function substituteColors(value, colors) {
    if (Array.isArray(value)) return value.map((item) => substituteColors(item, colors));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, substituteColors(item, colors)]));
    const match = typeof value === "string" && /^@(\w+)(?::([\d.]+))?$/.exec(value);
    if (!match) return typeof value === "string" ? value.replace(/(\d) us\b/g, "$1 µs").replace("(us)", "(µs)") : value;
    const hex = colors[match[1]];
    if (!match[2]) return hex;
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${r},${g},${b},${match[2]})`;
  }

  // Reduces ticks, margins and font sizes for a narrow screen.
  function adaptToNarrowScreen(layout) {
    const x = layout.xaxis;
    if (x.tickvals && x.tickvals.length > 5) {
      const isTickShown = (_, i) => i % 2 === 0;
      Object.assign(x, { tickvals: x.tickvals.filter(isTickShown), ticktext: x.ticktext.filter(isTickShown) });
    }
    if (x.type !== "category") x.tickangle = 0;
    layout.margin = { ...layout.margin, l: 44, r: 8 };
    if (layout.legend) layout.legend.font = { size: 11 };
    layout.yaxis.title = { ...layout.yaxis.title, standoff: 4 };
  }

  function makeFigure(variant, colors, narrow) {
    const { height, ...layout } = substituteColors(variant.layout, colors);
    const data = substituteColors(variant.data, colors);
    if (narrow) adaptToNarrowScreen(layout);
    return {
      height: height && narrow ? height + NARROW_LEGEND_PX * data.filter((trace) => trace.showlegend !== false).length : height,
      data,
      layout: {
        ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
        font: { family: FONT, size: narrow ? 11 : 13, color: colors.ink },
        hoverlabel: { align: "left", bgcolor: colors.paper, bordercolor: colors.line, font: { color: colors.ink, size: 13 } },
        dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      },
    };
  }

  // ---- charts

  function selectedVariant(view) {
    return view.chart.variants.find((v) => Object.entries(view.choice).every(([name, value]) => v.choice[name] === value));
  }

  function drawView(view) {
    const variant = selectedVariant(view);
    view.missing.hidden = Boolean(variant);
    view.plot.hidden = !variant;
    view.table.hidden = !variant || !variant.data.some((trace) => trace.meta && trace.meta.cells);
    if (!variant) return;
    const { data, layout, height } = makeFigure(variant, readPalette(root.dataset.theme), innerWidth < 600);
    view.plot.style.height = height ? `${height}px` : "";
    layout.uirevision = JSON.stringify(Object.keys(variant.choice).filter((n) => n !== "show").map((n) => variant.choice[n]));
    if (layout.yaxis && layout.yaxis.scaleanchor) view.plot.classList.add("square");
    Plotly.react(view.plot, data, layout, { responsive: true, displayModeBar: false, doubleClick: "reset" });
    if (view.table.open) fillTable(view);
  }

  function createElement(name, properties = {}, ...children) {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
  }

  function optionGroup(view, name, values) {
    const segments = createElement("div", { className: "segments" });
    segments.setAttribute("role", "group");
    for (const value of values) {
      const button = createElement("button", { type: "button", textContent: value });
      button.setAttribute("aria-pressed", String(view.choice[name] === value));
      button.addEventListener("click", () => {
        view.choice[name] = value;
        for (const other of segments.children) other.setAttribute("aria-pressed", String(other === button));
        drawView(view);
      });
      segments.append(button);
    }
    return createElement("div", { className: "group" }, segments);
  }

  function selectGroup(view, name, values) {
    const select = createElement("select");
    for (const value of values) select.append(createElement("option", { value, textContent: value }));
    select.addEventListener("change", () => { view.choice[name] = select.value; drawView(view); });
    return createElement("label", { className: "group" }, `${name} `, select);
  }

  function buildChart(chart) {
    const host = document.querySelector(`#${CSS.escape(chart.id)} .chart`);
    if (!host) return;
    const view = {
      chart, choice: Object.fromEntries(Object.entries(chart.options).map(([name, values]) => [name, values[0]])),
      plot: createElement("div", { className: "plotly-place" }),
      missing: createElement("p", { className: "skipped", textContent: "Not measured for this choice.", hidden: true }),
      table: createElement("details", { className: "table-place" }, createElement("summary", { textContent: "table" }), createElement("div", { className: "scroll" })),
    };
    const controls = createElement("div", { className: "controls" });
    for (const [name, values] of Object.entries(chart.options))
      if (name !== "place" && values.length > 1)
        controls.append(values.length > 4 ? selectGroup(view, name, values) : optionGroup(view, name, values));
    const save = createElement("div", { className: "save" });
    for (const format of ["svg", "png"]) {
      const button = createElement("button", { type: "button", textContent: format.toUpperCase(), title: `Save this plot as ${format.toUpperCase()}` });
      button.dataset.save = format;
      button.addEventListener("click", () => savePlot(view, format));
      save.append(button);
    }
    controls.append(save);
    view.table.addEventListener("toggle", () => view.table.open && fillTable(view));
    view.plot.setAttribute("role", "img");
    view.plot.setAttribute("aria-label", chart.title);
    host.append(controls, view.plot, view.missing, view.table);
    views.push(view);
    drawView(view);
    for (let details = host.closest("details"); details; details = details.parentElement.closest("details"))
      details.addEventListener("toggle", () => drawView(view)); // a chart in a collapsed element has no width until it is expanded
  }

  // Returns the figure for a saved picture: in the light theme, with a title, and with the machine and MPI on which it
  // was measured.
  function makePicture(chart, variant) {
    const colors = readPalette("light");
    const { data, layout } = makeFigure(variant, colors, false);
    const words = Object.keys(chart.options).map((name) => variant.choice[name]).filter(Boolean);
    const choice = words.join(", ");
    Object.assign(layout, {
      paper_bgcolor: colors.paper, plot_bgcolor: colors.paper,
      margin: { ...layout.margin, t: 120, b: 84 },
      title: { text: `${chart.title}<br><sub>${[choice, label].filter(Boolean).join(" | ")}</sub>`, x: 0.02, xanchor: "left", yref: "container", y: 0.95 },
    });
    const filename = ["nearfield", chart.id, ...words].join("-").replace(/[^\w.-]+/g, "_");
    return { figure: { data, layout }, filename, size: { width: 1200, height: 675 } };
  }

  function savePlot(view, format) {
    const variant = selectedVariant(view);
    if (!variant) return;
    const { figure, filename, size } = makePicture(view.chart, variant);
    Plotly.downloadImage(figure, { format, filename, ...size, scale: format === "png" ? 2 : 1 });
  }

  // Returns [file name, SVG] for every choice of every plot. `nearfield report --format svg` calls this.
  window.nearfieldPictures = async () => {
    const drawn = [];
    for (const chart of charts)
      for (const variant of chart.variants) {
        const { figure, filename, size } = makePicture(chart, variant);
        const url = await Plotly.toImage(figure, { format: "svg", ...size });
        drawn.push([`${filename}.svg`, decodeURIComponent(url.slice(url.indexOf(",") + 1))]);
      }
    return drawn;
  };

  // ---- tables

  function fillTable(view) {
    const traces = selectedVariant(view).data.filter((trace) => trace.meta && trace.meta.cells);
    const rows = new Map();
    traces.forEach((trace, column) => trace.meta.x.forEach((x, i) => {
      if (!rows.has(x)) rows.set(x, { at: trace.x[i], cells: [] });
      rows.get(x).cells[column] = trace.meta.cells[i];
    }));
    const sorted = [...rows].sort(([, a], [, b]) => (typeof a.at === "number" ? a.at - b.at : 0));
    const head = createElement("tr", {}, createElement("th"), ...traces.map((t) => createElement("th", { textContent: t.name })));
    const body = sorted.map(([x, row]) => createElement("tr", {}, createElement("td", { textContent: x }),
      ...traces.map((_, i) => createElement("td", { textContent: (row.cells[i] || "").replace(/(\d) us\b/g, "$1 µs") }))));
    view.table.lastElementChild.replaceChildren(
      createElement("table", {}, createElement("thead", {}, head), createElement("tbody", {}, ...body)));
  }

  // ---- the page

  charts.forEach(buildChart);
  document.addEventListener("themechange", () => views.forEach(drawView));
  const place = document.getElementById("place");
  if (place) place.addEventListener("change", () => {
    for (const view of views) if ("place" in view.choice) { view.choice.place = place.value; drawView(view); }
  });
  let wasNarrow = innerWidth < 600;
  addEventListener("resize", () => {
    if ((innerWidth < 600) !== wasNarrow) views.forEach(drawView);
    wasNarrow = innerWidth < 600;
  });
  let open;
  const collapsedElements = [...document.querySelectorAll("#findings details")];
  addEventListener("beforeprint", () => {
    open = collapsedElements.map((details) => details.open);
    for (const details of collapsedElements) details.open = true;
  });
  addEventListener("afterprint", () => collapsedElements.forEach((details, i) => { details.open = open[i]; }));
  root.dataset.ready = "true";
})();
