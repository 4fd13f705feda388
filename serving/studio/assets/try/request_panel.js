// The request of an answer, to copy: as a command and as a program.

import { hasToken } from "../base/api.js";
import { element } from "../base/dom.js";
import { say } from "../base/shell.js";
import { TEXT } from "../base/strings.js";
import { curlCommand, pythonProgram } from "./request_code.js";
import { modelAddress, serverAddress } from "./rest.js";

// More would be slow to show; it is copied whole.
const SHOWN = 20_000;

export class RequestPanel {
  constructor() {
    this.code = element("pre", { className: "code", id: "try-code", role: "tabpanel", tabIndex: 0 });
    this.tabs = element("div", { className: "tabs", role: "tablist" });
    this.tabs.setAttribute("aria-label", TEXT.try.requestTitle);
    for (const [name, text] of Object.entries(TEXT.try.languages)) {
      const tab = element("button", { type: "button", role: "tab", id: `try-tab-${name}`, data: { name } }, text);
      tab.setAttribute("aria-controls", "try-code");
      this.tabs.append(tab);
    }
    const copy = element("button", { type: "button", id: "try-copy", onclick: () => this._copy() }, TEXT.try.copy);
    const title = element("h2", { id: "try-request-title" }, TEXT.try.requestTitle);
    const head = element("div", { className: "panel-head" }, title, this.tabs, copy);
    const hint = element("p", { className: "hint" }, TEXT.try.requestHint);
    this.element = element("section", { className: "panel" }, head, this.code, hint);
    this.element.setAttribute("aria-labelledby", "try-request-title");
    this.tabs.addEventListener("click", (event) => this._choose(event.target.dataset.name));
    this.tabs.addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      event.preventDefault();
      const other = [...this.tabs.children].find((tab) => tab.getAttribute("aria-selected") === "false");
      this._choose(other.dataset.name);
      other.focus();
    });
    this.texts = { curl: "", python: "" };
    this._choose("curl");
  }

  // With `file`, an input is the content of a file; see `request_code.js`.
  show(model, task, inputs, file) {
    const { method, signature } = task;
    const body = method === "stream" ? inputs : { signature_name: signature, inputs };
    const token = hasToken();
    this.texts = {
      curl: curlCommand({ address: modelAddress(model.name), method, body, token, file }),
      python: pythonProgram({ server: serverAddress, model: model.name, method, signature, inputs, token, file }),
    };
    this._write();
  }

  _choose(name) {
    if (!name) return;
    this.name = name;
    for (const tab of this.tabs.children) {
      const chosen = tab.dataset.name === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) this.code.setAttribute("aria-labelledby", tab.id);
    }
    this._write();
  }

  _write() {
    const text = this.texts[this.name];
    this.code.textContent = text.length > SHOWN ? `${text.slice(0, SHOWN)}\n${TEXT.try.cutCode}` : text;
  }

  async _copy() {
    try {
      await navigator.clipboard.writeText(this.texts[this.name]);
      say(TEXT.copied);
    } catch {
      say(TEXT.try.notCopied);
    }
  }
}
