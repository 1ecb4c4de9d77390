// The parts of classic scripts of the worker that the page needs, too.
import "./store.js";
import "./tar.js";

export const { Store, Tar } = globalThis;
