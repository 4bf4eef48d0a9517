// <json-editor>: CodeMirror around a <textarea>, which stays the form control and keeps the text exactly as typed. With the
// attribute "plain" the text is a string as it is, and no JSON. What is missing ("required") is said once the form is sent.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching, HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { linter } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { Annotation, Compartment, EditorState } from "@codemirror/state";
import { highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { EditorView } from "codemirror";
import { checkJson, fill, place, WORDS } from "./json-check.js";

const FromTextarea = Annotation.define();

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--text)" },
  { tag: tags.string, color: "var(--json-string)" },
  { tag: tags.number, color: "var(--json-number)" },
  { tag: tags.bool, color: "var(--json-boolean)" },
  { tag: tags.null, color: "var(--json-null)" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

const theme = EditorView.theme({
  "&": { backgroundColor: "transparent", color: "var(--text)", fontSize: "var(--mono-size)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": {
    fontFamily: "var(--mono)",
    lineHeight: "var(--editor-line)",
    maxHeight: "var(--editor-max)",
    overflow: "auto",
  },
  ".cm-content": {
    caretColor: "var(--text)",
    padding: "6px 0",
    minHeight: "calc(var(--rows, 1) * var(--editor-line) + 12px)",
  },
  ".cm-line": { padding: "0 10px" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--faint)", border: "0" },
  ".cm-gutters.cm-gutters-before": { borderRightWidth: "0" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "28px", padding: "0 2px 0 6px" },
  ".cm-specialChar": { color: "var(--bad)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "var(--del)" },
  ".cm-lintRange": { textDecorationLine: "underline", textDecorationStyle: "wavy", textDecorationSkipInk: "none" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecorationColor: "var(--bad)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecorationColor: "var(--warn)" },
  ".cm-lintRange-active": { backgroundColor: "transparent" },
  ".cm-lintPoint-error:after": { borderBottomColor: "var(--bad)" },
  ".cm-tooltip": {
    border: "1px solid var(--line-strong)",
    borderRadius: "var(--radius)",
    backgroundColor: "var(--surface)",
    color: "var(--text)",
    boxShadow: "var(--shadow)",
    overflow: "hidden",
  },
  ".cm-diagnostic": { fontFamily: "var(--sans)", padding: "4px 10px", marginLeft: "0" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--bad)" },
  ".cm-diagnostic-warning": { borderLeft: "3px solid var(--warn)" },
  // The difference: sign and colour, so that it does not depend on colour alone.
  "&.cm-merge-b .cm-changedLine, .cm-inlineChangedLine": { backgroundColor: "var(--add)" },
  "&.cm-merge-b .cm-changedText": {
    background: "linear-gradient(var(--add-strong), var(--add-strong)) bottom/100% 2px no-repeat",
  },
  ".cm-deletedChunk": { backgroundColor: "var(--del)", padding: "0 10px" },
  ".cm-deletedChunk .cm-deletedText": {
    background: "linear-gradient(var(--del-strong), var(--del-strong)) bottom/100% 2px no-repeat",
  },
  ".cm-deletedLine, .cm-deletedLine del, .cm-insertedLine": { textDecoration: "none" },
  ".cm-changeGutter": { width: "16px", paddingLeft: "0", textAlign: "center" },
  "&.cm-merge-b .cm-changedLineGutter": { background: "var(--add)", color: "var(--ok)" },
  ".cm-deletedLineGutter": { background: "var(--del)", color: "var(--bad)" },
  ".cm-changedLineGutter::before": { content: "'+'" },
  ".cm-deletedLineGutter::before": { content: "'−'" },
});

// Typing over a selection is left to the browser by CodeMirror; Chromium then writes a style attribute to keep the look of
// the replaced text, which a strict CSP refuses and reports. So this one case is done here.
const typeOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { state } = view;
    if (event.inputType !== "insertText" || !event.data || event.isComposing || view.composing) return false;
    if (state.readOnly || state.selection.main.empty) return false;
    view.dispatch(state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

function nonce() {
  return (
    document.querySelector('meta[name="csp-nonce"]')?.content || document.querySelector("script[nonce]")?.nonce || ""
  );
}

class JsonEditor extends HTMLElement {
  static observedAttributes = ["original", "plain"];

  connectedCallback() {
    if (this.view) return;
    const textarea = this.querySelector("textarea");
    if (textarea) this.start(textarea);
    else if (document.readyState === "loading") {
      document.addEventListener("DOMContentLoaded", () => this.isConnected && this.connectedCallback(), { once: true });
    }
  }

  disconnectedCallback() {
    if (!this.view) return;
    clearTimeout(this.waiting);
    this.listening.abort();
    this.view.destroy();
    this.view = null;
    this.textarea.hidden = false;
    this.textarea.setCustomValidity("");
  }

  attributeChangedCallback(name, before, now) {
    if (!this.view || before === now) return;
    const [part, extension] =
      name === "plain" ? [this.language, this.languageExtension()] : [this.difference, this.differenceExtension()];
    this.view.dispatch({ effects: part.reconfigure(extension) });
    if (name === "plain") {
      this.checkedDoc = null;
      this.report();
    }
  }

  /** The text, exactly as typed. */
  get value() {
    return this.view ? this.view.state.doc.toString() : (this.querySelector("textarea")?.value ?? "");
  }

  set value(text) {
    const textarea = this.querySelector("textarea");
    textarea.value = text;
    textarea.dispatchEvent(new Event("input", { bubbles: true }));
  }

  focus() {
    if (this.view) this.view.focus();
    else this.querySelector("textarea")?.focus();
  }

  word(name, values = {}) {
    return fill(this.getAttribute(`data-word-${name}`) ?? WORDS[name] ?? name, values);
  }

  start(textarea) {
    this.textarea = textarea;
    this.difference = new Compartment();
    this.language = new Compartment();
    this.numbers = new Compartment();
    // A page that htmx brings back from its history carries the markup of an editor that is gone.
    for (const stale of this.querySelectorAll(":scope > .cm-editor")) stale.remove();
    this.output = this.querySelector(".json-type");
    if (!this.output) {
      this.output = document.createElement("output");
      this.output.className = "json-type";
      this.append(this.output);
    }
    this.output.id ||= `json-type-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`;

    const label = textarea.getAttribute("aria-label") || textarea.labels?.[0]?.textContent.trim() || textarea.name;
    const described = [textarea.getAttribute("aria-describedby"), this.output.id].filter(Boolean).join(" ");
    const fixed = textarea.readOnly || textarea.disabled;
    this.view = new EditorView({
      doc: textarea.value,
      extensions: [
        EditorView.cspNonce.of(nonce()),
        EditorState.phrases.of({ "Control character": this.word("control-character") }),
        EditorState.readOnly.of(fixed),
        EditorView.editable.of(!textarea.disabled),
        EditorView.contentAttributes.of({ "aria-label": label, "aria-describedby": described }),
        EditorView.lineWrapping,
        indentUnit.of("  "),
        history(),
        this.language.of(this.languageExtension()),
        highlightSpecialChars(),
        this.numbers.of([]),
        this.difference.of(this.differenceExtension()),
        linter((view) => this.diagnostics(view), { delay: 250 }),
        keymap.of([
          ...historyKeymap,
          // Escape and Mod-Enter belong to the page (they close and send the form); Tab is not bound, so it moves the focus on.
          ...defaultKeymap.filter((binding) => binding.key !== "Escape" && binding.key !== "Mod-Enter"),
        ]),
        typeOver,
        theme,
        EditorView.updateListener.of((update) => this.changed(update)),
      ],
    });
    this.view.dom.dir = "ltr";
    this.view.dom.style.setProperty("--rows", textarea.getAttribute("rows") || "1");
    textarea.before(this.view.dom);
    textarea.hidden = true;
    this.showNumbers();
    this.report();
    if (textarea.autofocus) {
      this.view.dispatch({ selection: { anchor: this.view.state.doc.length } });
      this.view.focus();
    }

    this.listening = new AbortController();
    const { signal } = this.listening;
    textarea.addEventListener("input", () => this.pull(), { signal });
    textarea.addEventListener("focus", () => this.view.focus(), { signal });
    textarea.form?.addEventListener("reset", () => setTimeout(() => this.pull()), { signal });
    textarea.addEventListener(
      "invalid",
      (event) => {
        event.preventDefault();
        this.showProblem();
      },
      { signal },
    );
    for (const each of textarea.labels ?? []) each.addEventListener("click", () => this.view.focus(), { signal });
  }

  languageExtension() {
    return this.hasAttribute("plain") ? [] : [json(), syntaxHighlighting(colours), bracketMatching()];
  }

  differenceExtension() {
    if (!this.hasAttribute("original")) return [];
    return unifiedMergeView({
      original: this.getAttribute("original").replace(/\r\n?/g, "\n"),
      mergeControls: false,
      syntaxHighlightDeletions: true,
    });
  }

  changed(update) {
    if (!update.docChanged) return;
    this.showNumbers();
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.report(), 150);
    if (update.transactions.some((each) => each.annotation(FromTextarea))) return;
    this.textarea.value = update.state.doc.toString();
    this.textarea.setCustomValidity(this.problem(this.check()));
    this.textarea.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** Someone else wrote to the textarea (a restored draft, a reset): show it. */
  pull() {
    if (!this.view) return;
    const text = this.textarea.value;
    const { doc } = this.view.state;
    if (text === doc.toString()) return;
    this.view.dispatch({ changes: { from: 0, to: doc.length, insert: text }, annotations: FromTextarea.of(true) });
    this.report();
  }

  showNumbers() {
    const wanted = this.view.state.doc.lines > 1;
    if (wanted === this.numbered) return;
    this.numbered = wanted;
    queueMicrotask(() =>
      this.view?.dispatch({ effects: this.numbers.reconfigure(this.numbered ? lineNumbers() : []) }),
    );
  }

  /** Checked once per text. */
  check() {
    const { doc } = this.view.state;
    if (this.checkedDoc !== doc) {
      this.checkedDoc = doc;
      const plain = { type: doc.length ? "string" : "empty", duplicates: [] };
      this.checked = this.hasAttribute("plain") ? plain : checkJson(doc.toString());
    }
    return this.checked;
  }

  problem({ type, error }) {
    if (error) {
      const at = place(this.view.state.doc.toString(), error.from);
      return this.word("at", { ...at, message: this.word(error.word, error.values) });
    }
    return type === "empty" && this.textarea.required ? this.word("no-value") : "";
  }

  diagnostics() {
    const { error, duplicates } = this.check();
    const found = duplicates.map(({ from, to, text }) => ({
      from,
      to,
      severity: "warning",
      message: this.word("duplicate", { text }),
    }));
    if (error) {
      found.push({ from: error.from, to: error.to, severity: "error", message: this.word(error.word, error.values) });
    }
    return found.sort((a, b) => a.from - b.from);
  }

  report() {
    const checked = this.check();
    const problem = this.problem(checked);
    const { type, size } = checked;
    const isTold = Boolean(checked.error) || (problem !== "" && this.asked === true);
    let text = problem;
    if (!isTold) {
      text = this.word(type);
      if (type === "object") text += ` {${size}}`;
      if (type === "array") text += ` [${size}]`;
      if (checked.duplicates.length) text += ` · ${this.word("duplicate", checked.duplicates[0])}`;
    }
    if (this.output.textContent !== text) this.output.textContent = text;
    this.output.classList.toggle("bad", isTold);
    this.view.contentDOM.setAttribute("aria-invalid", String(isTold));
    this.textarea.setCustomValidity(problem);
  }

  /** The form was refused by the browser: if this value is the first that is wrong, go to the place. */
  showProblem() {
    this.asked = true;
    this.report();
    const fields = [...(this.textarea.form?.elements ?? [])];
    if (fields.find((field) => field.matches(":is(input, select, textarea):invalid")) !== this.textarea) return;
    const { error } = this.check();
    if (error) this.view.dispatch({ selection: { anchor: error.from }, scrollIntoView: true });
    this.view.focus();
  }
}

if (!customElements.get("json-editor")) customElements.define("json-editor", JsonEditor);
