// The editor of the page where CodeMirror was not there when the page was built: a text field.

// Returns { text(), setText(text), mark(line, message), clear(), goTo(line) }.
export function createEditor(place, { label, onChange, onApply }) {
  const area = document.createElement("textarea");
  area.setAttribute("aria-label", label);
  area.spellcheck = false;
  area.wrap = "off";
  area.addEventListener("input", onChange);
  area.addEventListener("keydown", e => {
    if ((e.ctrlKey || e.metaKey) && e.key === "s") {
      e.preventDefault();
      onApply();
    }
  });
  place.append(area);
  const placeOf = n => area.value.split("\n").slice(0, n - 1).join("\n").length + (n > 1 ? 1 : 0);
  return {
    text: () => area.value,
    setText(text) { area.value = text; },
    mark() { area.setAttribute("aria-invalid", "true"); },
    clear() { area.removeAttribute("aria-invalid"); },
    goTo(n) {
      const from = placeOf(n), line = area.value.split("\n")[n - 1] || "";
      area.focus();
      area.setSelectionRange(from, from + line.length);
      area.scrollTop = (n - 8) * parseFloat(getComputedStyle(area).lineHeight);
    },
  };
}
