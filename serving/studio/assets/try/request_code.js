// A request as a program would send it: as a command of a shell, and in Python.

// Written as \u escapes: characters that are not seen, or that change the direction of
// the text around them. JSON and Python read the same escapes.
const UNSEEN = /[\u007f-\u00a0\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function jsonText(value) {
  return JSON.stringify(value).replace(UNSEEN, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

// The body is a here-document with a quoted end: a shell changes nothing in it, and a
// text may be longer than an argument of a command. JSON has no line breaks, so none of
// its lines is the end.
export function curlCommand({ address, method, body, token }) {
  const header = token ? '  -H "Authorization: Bearer $TOKEN" \\\n' : "";
  return (
    `curl ${method === "stream" ? "--no-buffer " : ""}'${address}:${method}' \\\n` +
    `  -H 'Content-Type: application/json' \\\n${header}` +
    `  --data-binary @- <<'END'\n${jsonText(body)}\nEND\n`
  );
}

export function pythonProgram({ server, model, method, signature, inputs, token }) {
  const given = token ? `, token=os.environ["TOKEN"]` : "";
  const lines = [
    ...(token ? ["import os", ""] : []),
    ...(method === "stream" ? ["from transbeam.serving.base.stream_events import StreamPart"] : []),
    "from transbeam.serving.client.connect import connect",
    "",
    `with connect(${jsonText(server)}, ${jsonText(model)}${given}) as client:`,
  ];
  if (method === "stream") {
    lines.push(
      "    inputs = {",
      ...entries(inputs),
      "    }",
      "    for part in client.stream(inputs):",
      "        if isinstance(part, StreamPart):",
      '            print(part.text, end="", flush=True)',
    );
  } else {
    lines.push(
      "    inputs = {",
      ...entries(inputs),
      "    }",
      `    outputs = client.ask(${jsonText(signature)}, inputs)`,
      "for name, values in outputs.items():",
      "    print(name, values)",
    );
  }
  return `${lines.join("\n")}\n`;
}

function entries(inputs) {
  return Object.entries(inputs).map(([name, value]) => `        ${jsonText(name)}: ${jsonText(value)},`);
}
