// The run that the browser keeps: one record in IndexedDB.  A classic script, for the worker.
"use strict";

globalThis.Store = (() => {
  const NAME = "grpo", TABLE = "runs", KEY = "last";

  function opened() {
    return new Promise((resolve, reject) => {
      const request = indexedDB.open(NAME, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(TABLE);
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  }

  async function within(mode, work) {
    const base = await opened();
    try {
      return await new Promise((resolve, reject) => {
        const transaction = base.transaction(TABLE, mode);
        const request = work(transaction.objectStore(TABLE));
        transaction.oncomplete = () => resolve(request.result);
        transaction.onabort = transaction.onerror = () => reject(transaction.error);
      });
    } finally {
      base.close();
    }
  }

  return {
    read: () => within("readonly", table => table.get(KEY)),
    write: record => within("readwrite", table => table.put(record, KEY)),
    forget: () => within("readwrite", table => table.delete(KEY)),
  };
})();
