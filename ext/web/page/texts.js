// The newest completions with their rewards, and what a stage without rewards writes.

function element(name, className, text) {
  const e = document.createElement(name);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

const round = v => typeof v === "number" ? String(+v.toPrecision(3)) : "\u2013";

function shownText(text) {
  return text === "" ? "(nothing)" : text;
}

function asked(prompt) {
  const p = element("p", "asked");
  p.append(element("span", "", "asked: "), element("b", "mono", prompt));
  return p;
}

// One completion; the bar is its place between the lowest and the highest reward.
function row(c, low, high, tellsCut) {
  const line = element("div", "one"), amount = element("div", "amount", round(c.reward)), bar = element("i");
  bar.style.width = high > low && typeof c.reward === "number" ? `${100 * (c.reward - low) / (high - low)}%` : "0";
  amount.prepend(element("span", "quiet", "reward "), bar);
  const names = Object.keys(c.rewards), body = element("div");
  body.append(element("pre", "", shownText(c.text)));
  if (names.length > 1) body.append(element("small", "", names.sort().map(n => `${n} ${round(c.rewards[n])}`).join(", ")));
  if (tellsCut && c.finish === "length") body.append(element("small", "", "cut at the most tokens that are allowed"));
  line.append(amount, body);
  return line;
}

export function showCompletions(place, e) {
  const rewards = e.list.map(c => c.reward).filter(r => typeof r === "number");
  const low = Math.min(0, ...rewards), high = Math.max(...rewards);
  const tellsCut = e.list.some(c => c.finish !== "length"); // not where all texts have one length
  place.replaceChildren(asked(e.prompt), ...e.list.map(c => row(c, low, high, tellsCut)));
}

// What a stage that imitates a text has learned to answer to held-out rows.
export function showAnswers(place, e) {
  const rows = e.answers.map(c => {
    const line = element("div", "one"), body = element("div"), text = element("pre", "", c.prompt);
    text.append(element("b", "", shownText(c.text)));
    body.append(text);
    line.append(element("div", "amount", c.passed === undefined ? "" : c.passed ? "right" : "wrong"), body);
    return line;
  });
  place.replaceChildren(element("p", "asked", "This stage imitates a teacher and gives no rewards. Held-out rows, and the model\u2019s answers:"), ...rows);
}

export function showSamples(place, e) {
  const rows = e.list.map(c => {
    const line = element("div", "one");
    line.append(element("div", "amount"), element("pre", "", shownText(c.text)));
    return line;
  });
  place.replaceChildren(element("p", "asked", "This stage imitates a text and gives no rewards. The model writes by now:"), ...rows);
}
