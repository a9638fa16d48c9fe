/* Search works from disk: where a page is a file, browsers refuse a Worker, so its script runs in a frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      this.ready = new Promise((done) => { script.onload = done; });
      frame.contentDocument.body.append(script);
      this.tell = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      this.terminate = () => frame.remove();
    }

    postMessage(data) {
      this.ready.then(() => this.tell(data));
    }
  };
}
