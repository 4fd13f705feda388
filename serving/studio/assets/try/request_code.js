// A request as a program would send it: as a command of a shell, and in Python.
//
// A request may have a file: `{input, name}`, the input that takes its content, and its
// name. Its content is not written out; the command and the program read the file.

// Written as \u escapes: characters that are not seen, or that change the direction of
// the text around them. JSON and Python read the same escapes.
const UNSEEN = /[\u007f-\u00a0\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
// Names of files that mean nothing else to a shell, nor to who reads them.
const PLAIN_NAME = /^[\p{L}\p{N}_][\p{L}\p{N} ._()-]*$/u;
const CONTENT = "CONTENT OF THE FILE";

function jsonText(value) {
  return JSON.stringify(value).replace(UNSEEN, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

// The body is a here-document with a quoted end: a shell changes nothing in it, and a
// text may be longer than an argument of a command. JSON has no line breaks, so none of
// its lines is the end.
export function curlCommand({ address, method, body, token, file }) {
  const header = token ? '  -H "Authorization: Bearer $TOKEN" \\\n' : "";
  const command =
    `curl ${method === "stream" ? "--no-buffer " : ""}'${address}:${method}' \\\n` +
    `  -H 'Content-Type: application/json' \\\n${header}` +
    `  --data-binary @-`;
  if (!file) return `${command} <<'END'\n${jsonText(body)}\nEND\n`;
  const inputs = { ...body.inputs, [file.input]: [{ b64: CONTENT }] };
  const [before, after] = jsonText({ ...body, inputs }).split(CONTENT).map((part) => part.replaceAll("'", "\\u0027"));
  return (
    `{ printf '%s' '${before}'\n` +
    `  base64 < '${plainName(file.name)}' | tr -d '\\n'\n` +
    `  printf '%s' '${after}'; } |\n${command}\n`
  );
}

export function pythonProgram({ server, model, method, signature, inputs, token, file }) {
  const given = token ? `, token=os.environ["TOKEN"]` : "";
  const standard = [...(token ? ["import os"] : []), ...(file ? ["from pathlib import Path"] : [])];
  const lines = [
    ...(standard.length ? [...standard, ""] : []),
    ...(method === "stream" ? ["from transbeam.serving.base.stream_events import StreamPart"] : []),
    "from transbeam.serving.client.connect import connect",
    "",
    `with connect(${jsonText(server)}, ${jsonText(model)}${given}) as client:`,
    "    inputs = {",
    ...Object.entries(inputs).map(([name, value]) => {
      const read = file?.input === name;
      return `        ${jsonText(name)}: ${read ? `[Path(${jsonText(plainName(file.name))}).read_bytes()]` : jsonText(value)},`;
    }),
    "    }",
  ];
  if (method === "stream") {
    lines.push(
      "    for part in client.stream(inputs):",
      "        if isinstance(part, StreamPart):",
      '            print(part.text, end="", flush=True)',
    );
  } else {
    lines.push(
      `    outputs = client.ask(${jsonText(signature)}, inputs)`,
      "for name, values in outputs.items():",
      "    print(name, values)",
    );
  }
  return `${lines.join("\n")}\n`;
}

function plainName(name) {
  return PLAIN_NAME.test(name) ? name : "image.png";
}
