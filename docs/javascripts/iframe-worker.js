/* Search in a site that is opened from a folder. Browsers start no worker there, so its script runs in a hidden frame.
   Pages that a server sends use the browser's own workers. */
if (location.protocol === "file:") {
  const frameText = (url) => `<!doctype html><script>
    self.importScripts = (...urls) => urls.reduce((done, one) => done.then(() => new Promise((loaded, failed) => {
      const script = document.createElement("script");
      script.src = one;
      script.onload = loaded;
      script.onerror = failed;
      document.body.append(script);
    })), Promise.resolve());
    self.postMessage = (data) => parent.dispatchEvent(new MessageEvent("worker:" + ${JSON.stringify(String(url))}, { data }));
  </scr` + `ipt><body><script src=${JSON.stringify(String(url))}></scr` + "ipt>";

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      addEventListener(`worker:${url}`, ({ data }) => this.dispatchEvent(new MessageEvent("message", { data })));
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.started = new Promise((started) => { this.frame.onload = started; });
      this.frame.srcdoc = frameText(url);
      document.body.append(this.frame);
    }
    async postMessage(data) {
      await this.started;
      const { contentWindow } = this.frame;
      contentWindow.dispatchEvent(new contentWindow.MessageEvent("message", { data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
