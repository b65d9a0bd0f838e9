// Search runs in a worker, and a browser starts no worker for a page that is opened from disk. There a hidden frame takes its place.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.url = url;
      this.waiting = [];
      if (document.body) this.start();
      else addEventListener("DOMContentLoaded", () => this.start());
    }

    start() {
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = this.url;
      script.onload = () => {
        this.inside = inside;
        for (const data of this.waiting.splice(0)) this.postMessage(data);
      };
      inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }

    terminate() {}
  };
}
