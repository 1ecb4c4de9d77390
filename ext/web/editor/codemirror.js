// The editor of the page: CodeMirror, which the build bundles to editor.js.  plain.js beside this
// has the same function.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentUnit, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { lua } from "@codemirror/legacy-modes/mode/lua";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: tags.comment, class: "cm-quiet" },
  { tag: tags.keyword, class: "cm-word" },
  { tag: tags.string, class: "cm-text" },
  { tag: tags.number, class: "cm-number" },
  { tag: [tags.atom, tags.bool], class: "cm-number" },
]);

const look = EditorView.theme({
  "&": { height: "100%", fontSize: ".87rem", color: "var(--ink)", backgroundColor: "var(--field)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-gutters": { backgroundColor: "var(--field)", color: "var(--soft)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--bar) 35%, transparent)" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--bar) !important" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-quiet": { color: "var(--soft)" },
  ".cm-word": { color: "var(--accent)" },
  ".cm-text": { color: "var(--good)" },
  ".cm-number": { color: "var(--held)" },
  ".cm-matchingBracket": { backgroundColor: "var(--bar) !important", outline: "none" },
});

// Returns { text(), setText(text), mark(line, message), clear(), goTo(line) }.  The Tab key leaves the
// editor, as anywhere on a page.
export function createEditor(place, { label, onChange, onApply }) {
  let own = false; // a change by setText
  const view = new EditorView({
    parent: place,
    state: EditorState.create({
      extensions: [
        lineNumbers(), history(), drawSelection(), highlightActiveLine(), bracketMatching(), lintGutter(),
        indentUnit.of("  "), StreamLanguage.define(lua), syntaxHighlighting(colours), look,
        EditorView.contentAttributes.of({ "aria-label": label }),
        keymap.of([{ key: "Mod-s", run: () => { onApply(); return true; } }, ...defaultKeymap, ...historyKeymap]),
        EditorView.updateListener.of(u => { if (u.docChanged && !own) onChange(); }),
      ],
    }),
  });
  const lineAt = n => view.state.doc.line(Math.min(Math.max(1, n), view.state.doc.lines));
  return {
    text: () => view.state.doc.toString(),
    setText(text) {
      own = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      own = false;
    },
    mark(n, message) {
      const { from, to } = lineAt(n);
      view.dispatch(setDiagnostics(view.state, [{ from, to, severity: "error", message }]));
    },
    clear: () => view.dispatch(setDiagnostics(view.state, [])),
    goTo(n) {
      const { from } = lineAt(n);
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
      view.focus();
    },
  };
}
