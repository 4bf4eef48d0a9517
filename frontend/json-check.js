// A strict JSON check that says where and why, in the words it is given. It accepts what JSON.parse accepts, with one
// exception: a number with a fraction or exponent that no float can hold (1e999) is refused, because it would be stored as
// Infinity. It never builds the value, so long integers and the writer's own spelling stay as they are.

export const WORDS = {
  at: "line {line}, column {column}: {message}",
  empty: "empty",
  object: "object",
  array: "array",
  string: "string",
  number: "number",
  true: "true",
  false: "false",
  null: "null",
  "no-value": "a value is missing",
  "bad-value": "not a JSON value: {text}",
  "bad-constant": "{text} is not JSON; use null or a string",
  "bad-number": "not a JSON number: {text}",
  "too-large": "this number is too large to be stored: {text}",
  "bad-key": "a key in double quotes is expected",
  "bad-quotes": "JSON uses double quotes",
  "no-colon": "a colon is expected after the key",
  "no-comma": "a comma or {close} is expected",
  "trailing-comma": "one comma too many",
  unclosed: "{close} is missing at the end",
  "unclosed-string": "the closing quote is missing",
  "bad-escape": "not a JSON escape: {text}",
  "control-character": "control character",
  "bad-character": "a line break or control character must be escaped inside a string",
  "after-value": "there is something after the end of the value",
  duplicate: "the key {text} is there twice; the last one counts",
};

const SPACE = /[ \t\n\r]*/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON refuses exactly these
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const WORD = /[^\s,:[\]{}"]+/y;

class Refused extends Error {
  constructor(word, from, to, values) {
    super(word);
    Object.assign(this, { word, from, to, values });
  }
}

/** → {type, size, error: null | {from, to, word, values}, duplicates: [{from, to, text}]} */
export function checkJson(text) {
  let at = 0;
  const duplicates = [];
  const open = [];
  const result = { type: "empty", size: null, error: null, duplicates };

  function take(pattern) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) return null;
    at = pattern.lastIndex;
    return found;
  }

  function refuse(word, from, to = from + 1, values = {}) {
    throw new Refused(word, Math.min(from, text.length), Math.min(to, text.length), values);
  }

  function takeString() {
    const from = at;
    at += 1;
    for (;;) {
      take(PLAIN);
      if (at >= text.length) refuse("unclosed-string", from, text.length);
      if (text[at] === '"') {
        at += 1;
        return text.slice(from, at);
      }
      if (text[at] !== "\\") {
        const line = text[at] === "\n" || text[at] === "\r";
        refuse(line ? "unclosed-string" : "bad-character", line ? from : at, line ? at : at + 1);
      }
      if (!take(ESCAPE)) refuse("bad-escape", at, at + 2, { text: text.slice(at, at + 2) });
    }
  }

  function takeScalar() {
    const from = at;
    const char = text[at];
    if (char === '"') {
      takeString();
      return "string";
    }
    const word = take(WORD)?.[0] ?? "";
    const short = word.length > 24 ? `${word.slice(0, 24)}…` : word;
    if (word === "true" || word === "false" || word === "null") return word;
    if (/^[-+]?(?:NaN|Infinity)$/.test(word) || ["undefined", "None", "True", "False"].includes(word)) {
      refuse("bad-constant", from, at, { text: short });
    }
    if (/^[-+.0-9]/.test(word)) {
      NUMBER.lastIndex = from;
      const number = NUMBER.exec(text);
      if (number?.[0] !== word) refuse("bad-number", from, at, { text: short });
      if ((number[1] || number[2]) && !Number.isFinite(Number(word))) refuse("too-large", from, at, { text: short });
      return "number";
    }
    if (char === "'" || char === "`") refuse("bad-quotes", from, at);
    if (word) refuse("bad-value", from, at, { text: short });
    return refuse("no-value", from);
  }

  function takeKey(box) {
    const from = at;
    if (text[at] === "}" && box.size) refuse("trailing-comma", box.comma);
    if (at >= text.length) refuse("unclosed", at, at, { close: "}" });
    if (text[at] === "'") refuse("bad-quotes", at);
    if (text[at] !== '"') refuse("bad-key", at);
    const key = JSON.parse(takeString());
    if (box.keys.has(key)) duplicates.push({ from, to: at, text: text.slice(from, at) });
    box.keys.add(key);
    take(SPACE);
    if (text[at] !== ":") refuse("no-colon", at);
    at += 1;
  }

  try {
    take(SPACE);
    if (at >= text.length) return result;
    let wanted = true;
    for (;;) {
      take(SPACE);
      const box = open.at(-1);
      if (wanted) {
        if (box && at >= text.length && (box.close === "]" || box.size))
          refuse("unclosed", at, at, { close: box.close });
        if (box?.close === "]" && text[at] === "]" && box.comma !== null) refuse("trailing-comma", box.comma);
        const char = text[at];
        if (char === "{" || char === "[") {
          const made = { close: char === "{" ? "}" : "]", size: 0, keys: char === "{" ? new Set() : null, comma: null };
          if (open.length === 0) result.type = char === "{" ? "object" : "array";
          open.push(made);
          at += 1;
          take(SPACE);
          if (text[at] === made.close) wanted = false;
          else {
            made.size = 1;
            if (made.keys) {
              made.size = 0;
              takeKey(made);
              made.size = 1;
            }
            continue;
          }
        } else {
          const type = takeScalar();
          if (open.length === 0) result.type = type;
          wanted = false;
          if (open.length > 0) continue;
        }
      }
      // A value has ended (or an empty container is about to): close what closes, or go on after a comma.
      take(SPACE);
      const around = open.at(-1);
      if (!around) {
        if (at < text.length) refuse("after-value", at, text.length);
        return result;
      }
      if (text[at] === around.close) {
        at += 1;
        open.pop();
        if (open.length === 0) result.size = around.keys ? around.keys.size : around.size;
      } else if (text[at] === ",") {
        around.comma = at;
        at += 1;
        take(SPACE);
        if (around.keys) takeKey(around);
        around.size += 1;
        wanted = true;
      } else if (at >= text.length) refuse("unclosed", at, at, { close: around.close });
      else refuse("no-comma", at, at + 1, { close: around.close });
    }
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const { word, from, to, values } = error;
    return { ...result, error: { word, from, to, values } };
  }
}

export function fill(template, values) {
  return template.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));
}

/** 1-based; the column counts characters as a person does (an emoji is one). */
export function place(text, offset) {
  const before = text.slice(0, offset);
  const start = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: [...before.slice(start)].length + 1 };
}
