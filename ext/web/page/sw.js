// Keeps the page's files, so that it works without a network after the first visit.  The build
// writes the list of files and a name that changes with them.
"use strict";

const NAME = "grpo-@VERSION@";
const FILES = [/* @FILES@ */];

self.addEventListener("install", event => {
  event.waitUntil(caches.open(NAME).then(cache =>
    cache.addAll(FILES.map(file => new Request(file, { cache: "no-cache" })))));
});

// Newer files are used when no page is open that has begun with the old ones.
self.addEventListener("activate", event => {
  event.waitUntil(caches.keys().then(names =>
    Promise.all(names.filter(n => n.startsWith("grpo-") && n !== NAME).map(n => caches.delete(n)))));
});

self.addEventListener("fetch", event => {
  if (event.request.method !== "GET") return;
  event.respondWith(caches.open(NAME).then(cache =>
    cache.match(event.request, { ignoreSearch: true }).then(found => found || fetch(event.request))));
});
