// The functions of store.js, which is a classic script for the worker, for the page.
import "./store.js";

export const { read, forget } = globalThis.Store;
