// The prompt: a line of Lua, its answer, and the lines before.

const $ = id => document.getElementById(id);

// Columns of the place for answers.
function columns() {
  const place = $("answers"), probe = document.createElement("span");
  probe.textContent = "0".repeat(50);
  probe.style.cssText = "position:absolute;visibility:hidden";
  place.append(probe);
  const width = probe.getBoundingClientRect().width / 50;
  probe.remove();
  return Math.max(20, Math.floor((place.clientWidth - 2 * parseFloat(getComputedStyle(place).paddingLeft)) / width) - 1);
}

function show(kind, text) {
  if (!text) return;
  const line = document.createElement("div");
  line.className = kind;
  line.textContent = text.replace(/\n$/, "");
  $("answers").append(line);
  $("answers").scrollTop = $("answers").scrollHeight;
}

// answerTo(text, width): a promise of { out, err, more }.
export function openPrompt(answerTo) {
  const lines = [];
  let place = 0, pending = "";

  async function ask(line) {
    if (line) lines.push(line);
    place = lines.length;
    show("asked", (pending ? ">> " : "> ") + line);
    const text = pending ? `${pending}\n${line}` : line;
    const answer = await answerTo(text, columns());
    pending = answer.more ? text : "";
    $("caret").textContent = pending ? ">>" : ">";
    show("", answer.out);
    show("failed", answer.err);
  }

  $("ask").onsubmit = e => {
    e.preventDefault();
    const line = $("line").value;
    $("line").value = "";
    if (line.trim() || pending) ask(line);
  };
  $("line").onkeydown = e => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[e.key];
    if (!by) return;
    e.preventDefault();
    place = Math.min(Math.max(0, place + by), lines.length);
    $("line").value = lines[place] || "";
  };
}
