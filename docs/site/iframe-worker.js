// Pages opened from the disk may not start a Worker. Here a hidden frame runs the worker's script instead,
// so that the search works from file:// as it does from a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      window.addEventListener("message", (event) => this.receive(event));
      const bind = "postMessage = (data) => parent.postMessage(data, '*');" +
        "importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, fail) => {" +
        "const script = document.createElement('script'); script.src = url; script.onload = done;" +
        "script.onerror = fail; document.body.appendChild(script); })), Promise.resolve());";
      const page = this.frame.contentDocument;
      page.open();
      page.write(`<body><script>${bind}</script><script src="${url}"></script></body>`);
      page.close();
      this.frame.onload = () => this.start();
    }

    start() {
      const waiting = this.waiting;
      this.waiting = null;
      waiting.forEach((data) => this.postMessage(data));
    }

    receive(event) {
      if (event.source !== this.frame.contentWindow) return;
      const copy = new MessageEvent("message", { data: event.data });
      this.dispatchEvent(copy);
      if (this.onmessage) this.onmessage(copy);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data, source: window }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
