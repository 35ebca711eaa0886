"use strict";
// All text from requests and models enters the page through textContent, never as HTML.

const $ = (id) => document.getElementById(id);
const newSession = (id = null) => ({
  id, text: null, ready: false, questions: [], since: performance.now(), stop: null, timer: null,
  done: { full: 0, compressed: 0 }, turns: { full: [], compressed: [] },
});
let base = "";
let session = newSession();  // the open document and its chat

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function showError(message) {
  $("error").textContent = message;
  $("error").hidden = !message;
}

function headers() {
  const key = sessionStorage.getItem("key");
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function api(path, options = {}) {
  const response = await fetch(path, { ...options, headers: { ...headers(), ...(options.headers || {}) } });
  if (response.ok) return response;
  if (response.status === 401) $("key-form").hidden = false;
  const body = await response.json().catch(() => ({}));
  const error = new Error(body.error ? body.error.message : `the server answered ${response.status}`);
  throw Object.assign(error, { status: response.status });
}

const post = (path, body, more = {}) =>
  api(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, ...more });

const number = (value) => value.toLocaleString("en");
const bytes = (value) =>
  value >= 1e9 ? `${(value / 1e9).toFixed(1)} GB` : value >= 1e6 ? `${(value / 1e6).toFixed(1)} MB` : `${(value / 1e3).toFixed(1)} kB`;

// ---- models and prefixes

async function connect() {
  try {
    const models = (await (await api("/v1/models")).json()).data;
    $("key-form").hidden = true;
    base = models[0].id;
    $("model").textContent = base;
    $("base").textContent = `${location.origin}/v1`;
    await listPrefixes(models);
    showError("");
  } catch (error) {
    $("model").textContent = "not connected";
    showError(error.message);
  }
}

async function listPrefixes(models) {
  const all = models || (await (await api("/v1/models")).json()).data;
  const made = (await (await api("/v1/prefixes")).json()).data;
  const named = new Set(made.map((prefix) => prefix.name));
  const given = all.filter((model) => model.kind !== "model" && !named.has(model.id));
  $("prefixes").replaceChildren(...made.map(madeItem), ...given.map(givenItem));
  $("known").hidden = made.length + given.length === 0;
  const running = made.find((prefix) => prefix.status === "compressing" || prefix.status === "waiting");
  if (running && session.id === null) watch(running.id).catch((error) => showError(error.message));
}

function item(label, ...buttons) {
  const li = element("li");
  li.append(element("span", label, "about"), ...buttons);
  return li;
}

function button(text, action) {
  const made = element("button", text);
  made.type = "button";
  made.addEventListener("click", () => action().catch((error) => showError(error.message)));
  return made;
}

function madeItem(prefix) {
  const open = button(prefix.status === "ready" ? "Chat" : "Show", () => watch(prefix.id));
  const remove = button("Delete", async () => {
    await api(`/v1/prefixes/${encodeURIComponent(prefix.id)}`, { method: "DELETE" });
    if (session.id === prefix.id) reset();
    await listPrefixes();
  });
  return item(`${prefix.name} · ${summary(prefix)}`, open, remove);
}

function givenItem(model) {
  return item(`${model.id} · ${model.kind} given on the command line`, button("Chat", async () => {
    reset(model.id);
    session.ready = true;
    openChat(model.id);
  }));
}

function summary(prefix) {
  const result = prefix.result;
  if (prefix.status === "failed") return `failed: ${prefix.error}`;
  if (!result) return prefix.status;
  const times = (result.full_bytes / Math.max(1, result.prefix_bytes)).toFixed(1);
  return `${number(result.prompt_tokens)} tokens became ${number(result.size)}, ${times} times less memory, ` +
    `${result.kept} of ${result.asked} answers kept`;
}

function reset(id = null) {
  clearTimeout(session.timer);
  if (session.stop) session.stop.abort();
  session = newSession(id);
  for (const turns of document.querySelectorAll(".turns")) turns.replaceChildren();
  $("progress").hidden = $("chat").hidden = true;
  $("ask").disabled = false;
  $("stop").hidden = true;
}

// ---- compression

async function compress(event) {
  event.preventDefault();
  showError("");
  $("compress").disabled = true;
  try {
    const text = $("text").value;
    if (!text.trim()) throw new Error("Paste a document first.");
    const prefix = await create({ text, keep: Number($("keep").value) });
    await watch(prefix.id);
    $("progress").scrollIntoView({ block: "nearest" });
  } catch (error) {
    showError(error.message);
  }
  $("compress").disabled = false;
}

// Name a document after its first words; if another has that name, the server chooses one.
async function create(body) {
  const words = body.text.match(/[A-Za-z0-9]+/g) || [];
  const name = words.slice(0, 5).join("-").slice(0, 40).replace(/-+$/, "");
  try {
    return await (await post("/v1/prefixes", name ? { ...body, name } : body)).json();
  } catch (error) {
    if (error.status !== 409) throw error;
    return await (await post("/v1/prefixes", body)).json();
  }
}

const STEPS = {
  "loading the model": "Loading the model",
  reading: "Reading the document",
  "making questions": "Asking the full document questions, to compare answers with",
  scoring: "Finding the words that matter",
  sampling: "Writing texts to fit on",
  fitting: "Fitting the compressed document",
  asking: "Asking the compressed document the same questions",
  distilling: "Training the compressed document",
  measuring: "Measuring the compressed document",
};
const isBusy = (prefix) => prefix.status === "waiting" || prefix.status === "compressing";

async function watch(id) {
  if (session.id !== id) reset(id);
  const current = session;
  const path = `/v1/prefixes/${encodeURIComponent(id)}`;
  const prefix = await (await api(path)).json();
  if (current.text === null) current.text = (await (await api(`${path}/text`)).json()).text;
  if (current !== session) return;
  current.ready = prefix.status === "ready";
  showProgress(prefix);
  $("wait").textContent = isBusy(prefix) ? "Answers as soon as the compression has ended." : "The compression failed.";
  openChat(prefix.name);
  if (isBusy(prefix)) {
    current.timer = setTimeout(() => watch(id).catch((error) => showError(error.message)), 700);
    return;
  }
  await listPrefixes();
  await answerPending(current);
}

const elapsed = (seconds) => (seconds < 60 ? `${Math.floor(seconds)} s` : `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`);

function showProgress(prefix) {
  const { stage, done, total } = prefix.progress;
  const busy = isBusy(prefix);
  const step = `${STEPS[stage] || stage || "Waiting"}${total ? `, ${done} of ${total}` : ""}`;
  $("progress").hidden = false;
  $("bar").hidden = !busy;
  if (total) $("bar").value = done / total; else $("bar").removeAttribute("value");
  $("status").textContent = busy ? `${step} · ${elapsed((performance.now() - session.since) / 1000)} so far` : summary(prefix);
  $("patience").hidden = !busy;
  drawCurve(prefix.curve, prefix.keep);
}

function drawCurve(points, goal) {
  const names = "http://www.w3.org/2000/svg";
  const make = (tag, attributes, text) => {
    const made = document.createElementNS(names, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const sizes = points.map((point) => point.size);
  const low = Math.log2(Math.min(16, ...sizes)), high = Math.log2(Math.max(128, ...sizes));
  const x = (size) => 46 + (Math.log2(size) - low) / (high - low) * 350;
  const y = (share) => 170 - share * 150;
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    parts.push(make("line", { x1: 46, x2: 404, y1: y(share), y2: y(share), class: "axis" }));
    parts.push(make("text", { x: 40, y: y(share) + 4, "text-anchor": "end" }, `${share * 100} %`));
  }
  parts.push(make("line", { x1: 46, x2: 404, y1: y(goal), y2: y(goal), class: "goal" }));
  for (let power = Math.ceil(low); power <= high; power++) {
    parts.push(make("text", { x: x(2 ** power), y: 188, "text-anchor": "middle" }, String(2 ** power)));
  }
  parts.push(make("text", { x: 225, y: 204, "text-anchor": "middle" }, "virtual tokens per head"));
  const shares = points.map((point) => [x(point.size), y(point.kept / point.asked)]);
  parts.push(make("polyline", { points: shares.map((pair) => pair.join(",")).join(" "), class: "line" }));
  shares.forEach(([cx, cy], index) => {
    parts.push(make("circle", { cx, cy, r: 4.5, class: "dot" }));
    parts.push(make("text", { x: cx + 8, y: cy + 14 }, `${points[index].kept}/${points[index].asked}`));
  });
  $("curve").replaceChildren(...parts);
  $("curve").parentElement.hidden = points.length === 0;
}

// ---- chat

function openChat(name) {
  const isFirst = $("chat").hidden;
  $("name").textContent = $("chat").dataset.model = name;
  $("chat").hidden = false;
  $("full").hidden = session.text === null;
  $("columns").classList.toggle("single", session.text === null);
  $("wait").hidden = session.ready;
  $("code").hidden = !session.ready;
  if (isFirst && session.ready) $("question").focus();
}

function ask(event) {
  event.preventDefault();
  const question = $("question").value.trim();
  if (!question) return;
  showError("");
  $("question").value = "";
  session.questions.push(question);
  answerPending(session);
}

// Answer what was asked, one column after the other, so that they do not share the processor.
// Questions asked during the compression are answered again when it has ended.
async function answerPending(current) {
  if (current.stop) return;
  $("ask").disabled = true;
  $("stop").hidden = false;
  for (let column; current === session && (column = nextColumn(current)); ) {
    current.stop = new AbortController();
    await answer(column, current.questions[current.done[column]++], current);
  }
  current.stop = null;
  if (current !== session) return;
  $("ask").disabled = false;
  $("stop").hidden = true;
}

function nextColumn({ ready, text, done, questions }) {
  const columns = [...(ready ? ["compressed"] : []), ...(text !== null ? ["full"] : [])];
  const open = columns.filter((column) => done[column] < questions.length);
  return open.sort((one, other) => done[one] - done[other])[0];
}

async function answer(column, question, current) {
  const turns = $(column).querySelector(".turns");
  const words = element("p", "", "turn"), stats = element("p", "", "stats");
  turns.append(element("p", question, "turn user"), words, stats);
  try {
    const text = await writeAnswer(column, question, current, words, stats);
    current.turns[column].push({ role: "user", content: question }, { role: "assistant", content: text });
  } catch (error) {
    const isStopped = error.name === "AbortError";
    stats.replaceChildren(element("span", isStopped ? "stopped" : error.message, isStopped ? "" : "bad"));
  }
}

async function writeAnswer(column, question, current, words, stats) {
  const model = column === "full" ? base : $("chat").dataset.model;
  const before = column === "full" ? [{ role: "system", content: current.text.trim() }] : [];
  const messages = [...before, ...current.turns[column], { role: "user", content: question }];
  const body = { model, messages, temperature: 0, max_tokens: 128, stream: true, stream_options: { include_usage: true } };
  const started = performance.now();
  let first = null, usage = null, text = "";
  words.textContent = "…";
  const response = await post("/v1/chat/completions", body, { signal: current.stop.signal });
  for await (const chunk of events(response)) {
    if (chunk.error) throw new Error(chunk.error.message);
    usage = chunk.usage || usage;
    const piece = chunk.choices.length ? chunk.choices[0].delta.content : "";
    if (piece && first === null) first = performance.now() - started;
    text += piece || "";
    words.textContent = text || "…";
  }
  showStats(stats, first === null ? performance.now() - started : first, usage);
  return text;
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the server closed the connection before the answer was complete");
    const lines = (rest + value).split("\n\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "data: [DONE]") return;
      if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
    }
  }
}

function showStats(place, first, usage) {
  const fact = (label, value) => {
    const made = element("span", `${label} `);
    made.append(element("b", value));
    return made;
  };
  const more = usage.attangent;
  const read = usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens;
  place.replaceChildren(
    fact("first token", `${(first / 1000).toFixed(2)} s`),
    fact("speed", more.tokens_per_second === null ? "–" : `${more.tokens_per_second.toFixed(1)} tokens/s`),
    fact("KV memory", bytes(more.kv_bytes)),
    fact("read", `${number(read)} tokens`),
  );
}

// ---- start

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
}

async function openFile(file) {
  if (file.size > 4e6) return showError("The file has more than 4 MB; choose a smaller one.");
  $("text").value = await file.text();
}

function start() {
  const theme = localStorage.getItem("theme");
  if (theme) setTheme(theme);
  $("theme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
    setTheme(dark ? "light" : "dark");
  });
  $("compress-form").addEventListener("submit", compress);
  $("ask-form").addEventListener("submit", ask);
  $("stop").addEventListener("click", () => session.stop && session.stop.abort());
  $("file").addEventListener("change", () => $("file").files.length && openFile($("file").files[0]));
  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("key", $("key").value);
    connect();
  });
  document.addEventListener("dragover", (event) => { event.preventDefault(); $("text").classList.add("over"); });
  document.addEventListener("dragleave", () => $("text").classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    $("text").classList.remove("over");
    if (event.dataTransfer.files.length) openFile(event.dataTransfer.files[0]);
  });
  connect();
}

start();
