"use strict";
// One sentence at a time. Offsets count Unicode characters, as in the server, not UTF-16 units.

const $ = (id) => document.getElementById(id);
let state = null; // the server's last answer
let chars = []; // characters of the sentence
let marked = []; // [start, end, label]
let wrong = []; // [start, end] of masks that hide no secret
let cursor = 0; // position among the pieces
let anchor = null; // other end of a selection
let current = null; // the mark that digits relabel
let pull = null; // pieces under the finger or pointer
let pending = null; // a decision that is not confirmed yet
let lastLabel = null;

async function call(name, body) {
  const answer = await fetch(`/api/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    cache: "no-store",
    credentials: "same-origin",
  });
  const isJson = (answer.headers.get("Content-Type") || "").startsWith("application/json");
  const document = isJson ? await answer.json() : {};
  if (!answer.ok) throw new Error(document.error || "server");
  return document;
}

function trouble(error) {
  const told = error.message !== "server" && !(error instanceof TypeError) ? error.message : null;
  $("trouble").textContent = told
    ? `This was not saved: ${told}`
    : "The review program does not answer. All your saved answers are safe. Start “reticent review” again and open the " +
      "address that it prints. If it is running, press the button again.";
  $("trouble").hidden = false;
}

async function send(name, body) {
  if (pending) return;
  pending = { name, body };
  setBusy(true);
  try {
    show(await call(name, body));
    $("trouble").hidden = true;
  } catch (error) {
    trouble(error);
  } finally {
    pending = null;
    setBusy(false);
  }
}

function setBusy(isBusy) {
  $("next").disabled = isBusy;
  $("skip").disabled = isBusy;
  $("back").disabled = isBusy || !state || !state.can_undo;
}

function show(next) {
  state = next;
  const left = next.num_total - next.num_done;
  $("who").textContent = next.mode === "adjudicate" ? `${next.reviewer} decides` : next.reviewer;
  $("bar").max = Math.max(1, next.num_total);
  $("bar").value = next.num_done;
  $("count").textContent = `${next.num_done} of ${next.num_total}` + (next.num_put_off ? ` (${next.num_put_off} put off)` : "");
  const sentence = next.sentence;
  $("work").hidden = !sentence;
  $("actions").hidden = !sentence && !next.can_undo;
  $("next").hidden = $("skip").hidden = !sentence;
  $("done").hidden = Boolean(sentence);
  $("help").hidden = !sentence;
  $("back").disabled = !next.can_undo;
  if (!sentence) {
    const kappas = next.agreement.filter((row) => row.kappa !== null).map(
      (row) => `${row.reviewers.join(" and ")} agree with κ = ${row.kappa.toFixed(2)} over ${row.num_sentences} sentences.`);
    $("summary").textContent = [`${next.num_done} sentences are reviewed.`, ...kappas].join(" ");
    say("All sentences are reviewed.");
    return;
  }
  chars = Array.from(sentence.text);
  marked = sentence.marked.map((row) => [...row]);
  wrong = sentence.wrong.map((row) => [...row]);
  cursor = 0;
  anchor = current = pull = null;
  $("ask").textContent = next.mode === "adjudicate"
    ? "The reviewers differ here. What is right?"
    : sentence.again.length
      ? "The computer no longer hides the framed words. Are they secret? Leave them marked if so."
      : "Is there a secret that is not shaded? Mark it. If not, go on.";
  $("speaker").hidden = !sentence.speaker;
  $("speaker").textContent = sentence.speaker || "";
  drawNear("before", sentence.before);
  drawNear("after", sentence.after);
  drawOthers(sentence);
  draw();
  focusPiece(false);
  say(`Sentence ${next.num_done + 1} of ${next.num_total}, ${left} left.`);
}

const overlaps = (a, b) => a[0] < b[1] && b[0] < a[1];

// Pieces, in order: a mask that stands is one piece, everything else goes word by word.
function pieces() {
  const found = [];
  const masks = state.sentence.masks.filter((mask) => !wrong.some((w) => overlaps(mask, w)));
  for (const mask of masks) found.push({ kind: "mask", start: mask[0], end: mask[1], label: mask[2] });
  for (const [start, end] of state.sentence.tokens) {
    if (masks.some((mask) => overlaps([start, end], mask)) || !chars.slice(start, end).join("").trim()) continue;
    found.push({ kind: "word", start, end });
  }
  for (const mask of state.sentence.masks) {
    if (wrong.some((w) => overlaps(mask, w))) found.push({ kind: "restore", start: mask[1], end: mask[1], mask });
  }
  return found.sort((a, b) => a.start - b.start || a.end - b.end);
}

const markOf = (piece) => marked.find((mark) => piece.kind !== "restore" && overlaps(mark, [piece.start, piece.end]));

function draw() {
  const all = pieces();
  cursor = Math.max(0, Math.min(cursor, all.length - 1));
  const box = $("sentence");
  const nodes = [];
  let at = 0;
  const [low, high] = selection();
  all.forEach((piece, index) => {
    const mark = markOf(piece);
    const before = chars.slice(at, piece.start).join("");
    if (before) nodes.push(document.createTextNode(before));
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.index = index;
    button.tabIndex = index === cursor ? 0 : -1;
    const text = chars.slice(piece.start, piece.end).join("");
    let about = "";
    let end = piece.end;
    if (piece.kind === "restore") {
      button.className = "restore";
      button.textContent = "hide again";
      button.setAttribute("aria-label", "hide this again: it is a secret");
    } else {
      button.textContent = text;
      const isWrong = wrong.some((w) => overlaps(w, [piece.start, piece.end]));
      if (mark) about = `marked as missed, ${mark[2]}`;
      else if (piece.kind === "mask") about = `hidden, ${piece.label}`;
      else if (isWrong) about = "no longer hidden";
      button.className = [mark ? "marked" : piece.kind === "mask" ? "mask" : "", isWrong && !mark ? "wrong" : "",
        state.sentence.again.some((a) => overlaps(a, [piece.start, piece.end])) ? "again" : ""].join(" ").trim();
      const follower = mark ? all.slice(index + 1).find((p) => p.kind !== "restore") : null;
      const isLast = !follower || markOf(follower) !== mark;
      if (!isLast) {
        // The words of one secret look like one.
        button.textContent = chars.slice(piece.start, follower.start).join("");
        button.classList.add("joined");
        end = follower.start;
      }
      if (mark && index && markOf(all[index - 1]) === mark) button.classList.add("follows");
      const tag = mark ? mark[2] : piece.kind === "mask" ? piece.label : "";
      if (tag && isLast) {
        const small = document.createElement("span");
        small.className = "tag";
        small.textContent = tag;
        button.append(small);
      }
      button.setAttribute("aria-pressed", mark || piece.kind === "mask" ? "true" : "false");
      button.setAttribute("aria-label", about ? `${text}, ${about}` : text);
    }
    if (anchor !== null && index >= low && index <= high) button.classList.add("chosen");
    if (pull && index >= Math.min(...pull) && index <= Math.max(...pull)) button.classList.add("pulled");
    nodes.push(button);
    at = end;
  });
  nodes.push(document.createTextNode(chars.slice(at).join("")));
  box.replaceChildren(...nodes);
  drawLabels();
  const changes = marked.length + wrong.length;
  $("next-text").textContent = changes ? "Save and go on" : "All right, nothing missed";
}

function drawLabels() {
  const box = $("labels");
  if (!current || !marked.includes(current)) {
    const hint = document.createElement("span");
    hint.className = "hint";
    hint.textContent = "Click a word, or drag over several that belong together.";
    box.replaceChildren(hint);
    return;
  }
  box.replaceChildren(...state.labels.map((label, index) => {
    const button = document.createElement("button");
    button.type = "button";
    const key = document.createElement("kbd");
    key.textContent = index + 1;
    button.append(key, label.replaceAll("_", " ").toLowerCase());
    button.setAttribute("aria-pressed", String(current[2] === label));
    button.addEventListener("click", () => relabel(label));
    return button;
  }));
}

// Neighbours are there to be read: they are judged where they are sampled themselves.
function drawNear(id, neighbours) {
  $(id).hidden = !neighbours.length;
  $(id).replaceChildren(...neighbours.map(([speaker, text]) => {
    const line = document.createElement("p");
    if (speaker) {
      const who = document.createElement("b");
      who.textContent = speaker;
      line.append(who);
    }
    line.append(text);
    return line;
  }));
  $(id).scrollTop = id === "before" ? $(id).scrollHeight : 0; // the nearest line shows
}

function drawOthers(sentence) {
  $("others").hidden = !sentence.others.length;
  $("others").replaceChildren(...sentence.others.map((other) => {
    const item = document.createElement("li");
    const text = document.createElement("span");
    const told = other.secrets.map((s) => `“${chars.slice(s[0], s[1]).join("")}”`);
    text.textContent = `${other.reviewer}: ${told.length ? told.join(", ") : "nothing secret"}`;
    const take = document.createElement("button");
    take.type = "button";
    take.textContent = `Take ${other.reviewer}’s answer`;
    take.addEventListener("click", () => {
      const masks = sentence.masks;
      marked = other.secrets.filter((s) => !masks.some((m) => m[0] === s[0] && m[1] === s[1])).map((s) => [...s]);
      wrong = masks.filter((m) => !other.secrets.some((s) => overlaps(s, m))).map((m) => [m[0], m[1]]);
      current = null;
      draw();
    });
    item.append(text, take);
    return item;
  }));
}

const selection = () => (anchor === null ? [cursor, cursor] : [Math.min(anchor, cursor), Math.max(anchor, cursor)]);

function relabel(label) {
  current[2] = lastLabel = label;
  draw();
  focusPiece(true);
  say(`Labelled ${label}.`);
}

// Marks or unmarks pieces low..high; several words become one secret.
function toggle(low, high) {
  const chosen = pieces().slice(low, high + 1);
  if (!chosen.length) return;
  if (chosen.length === 1) {
    const piece = chosen[0];
    if (piece.kind === "restore") {
      wrong = wrong.filter((w) => !overlaps(w, piece.mask));
      marked = marked.filter((mark) => !overlaps(mark, piece.mask));
      current = null;
      say("Hidden again.");
    } else if (markOf(piece)) {
      const mark = markOf(piece);
      marked = marked.filter((other) => other !== mark);
      current = null;
      say("Mark removed.");
    } else if (piece.kind === "mask") {
      wrong.push([piece.start, piece.end]);
      current = null;
      say("No secret: not hidden.");
    } else {
      add(piece.start, piece.end);
    }
  } else {
    const words = chosen.filter((piece) => piece.kind !== "restore");
    add(words[0].start, words[words.length - 1].end);
  }
  anchor = null;
  draw();
  focusPiece(true);
}

function add(start, end) {
  marked = marked.filter((mark) => !overlaps(mark, [start, end]));
  current = [start, end, lastLabel || state.labels[0]];
  marked.push(current);
  marked.sort((a, b) => a[0] - b[0]);
  say(`Marked as missed: ${current[2]}. Press a digit to change what it is.`);
}

function focusPiece(isNeeded) {
  const button = $("sentence").querySelector(`button[data-index="${cursor}"]`);
  if (button && (isNeeded || document.activeElement === document.body || !document.activeElement?.isConnected)) {
    button.focus({ preventScroll: !isNeeded });
  }
}

function say(text) {
  $("said").textContent = text;
}

function decide(kind) {
  if (!state?.sentence) return;
  const id = crypto.randomUUID ? crypto.randomUUID() : String(Math.random()).slice(2).padEnd(12, "0");
  const body = { id, key: state.sentence.key, kind, marked, wrong };
  send("decide", body);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !state) return;
  const isOutside = event.target.closest?.("footer, details, .labels, .others");
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key === "u" && state.can_undo) send("undo", {});
  else if (!state.sentence) return;
  else if (key === "Enter" && !isOutside) decide("judge");
  else if (key === "s") decide("skip");
  else if (key === " " && !isOutside) toggle(...selection());
  else if (key === "ArrowRight" || key === "ArrowLeft") {
    const last = pieces().length - 1;
    if (event.shiftKey) anchor = anchor ?? cursor;
    else anchor = null;
    cursor = Math.max(0, Math.min(last, cursor + (key === "ArrowRight" ? 1 : -1)));
    const piece = pieces()[cursor];
    current = (piece && markOf(piece)) || null;
    draw();
    focusPiece(true);
  } else if (key === "Home" || key === "End") {
    cursor = key === "Home" ? 0 : pieces().length - 1;
    anchor = null;
    draw();
    focusPiece(true);
  } else if (key === "Escape") {
    anchor = current = null;
    draw();
    focusPiece(true);
  } else if (/^[1-9]$/.test(key) && current && state.labels[Number(key) - 1]) relabel(state.labels[Number(key) - 1]);
  else if (key === "?") $("help").open = !$("help").open;
  else return;
  event.preventDefault();
});

const indexAt = (event) => {
  const button = document.elementFromPoint(event.clientX, event.clientY)?.closest?.("#sentence button");
  return button ? Number(button.dataset.index) : null;
};

$("sentence").addEventListener("pointerdown", (event) => {
  const index = indexAt(event);
  if (index === null || event.button !== 0) return;
  event.preventDefault();
  pull = [index, index];
});
document.addEventListener("pointermove", (event) => {
  if (!pull) return;
  const index = indexAt(event);
  if (index !== null && index !== pull[1]) {
    pull[1] = index;
    draw();
  }
});
document.addEventListener("pointerup", () => {
  if (!pull) return;
  const [from, to] = pull;
  pull = null;
  cursor = to;
  toggle(Math.min(from, to), Math.max(from, to));
});
document.addEventListener("pointercancel", () => {
  pull = null;
  if (state?.sentence) draw();
});
$("sentence").addEventListener("click", (event) => {
  // A screen reader's click comes without a pointer.
  if (event.detail === 0 && event.target.closest("button")) {
    cursor = Number(event.target.closest("button").dataset.index);
    toggle(cursor, cursor);
  }
});
$("next").addEventListener("click", () => decide("judge"));
$("skip").addEventListener("click", () => decide("skip"));
$("back").addEventListener("click", () => send("undo", {}));
send("state", {});
