// Where the file system of emscripten 3.1.6 differs from what src/os and a run's directory rely on.
mergeInto(LibraryManager.library, {
  $Files__deps: ['$FS', '$SYSCALLS', 'emscripten_get_heap_max'],
  $Files__postset: 'Files.mend();',
  $Files: {
    mend: function() {
      // A file that another one was renamed over is found again when that one is removed, and its
      // bytes are never given back.
      var rename = FS.rename;
      FS.rename = function(from, to) {
        var over = null;
        try { over = FS.lookupPath(to).node; } catch (e) {}
        rename(from, to);
        if (over && over.parent.contents[over.name] !== over) FS.hashRemoveNode(over);
      };
      // A link reads as the whole path of what it leads to, and not as it was written.
      FS.readlink = function(path) {
        var node = FS.lookupPath(path).node;
        if (!node.node_ops.readlink) throw new FS.ErrnoError({{{ cDefine('EINVAL') }}});
        return node.node_ops.readlink(node);
      };
      // src/base/mem.c asks for what is free.  Freed blocks within the heap are not counted.
      var device = FS.makedev(90, 1);
      FS.registerDevice(device, {
        open: function(stream) { stream.seekable = false; },
        read: function(stream, buffer, offset, length) {
          if (stream.told) return 0;
          stream.told = true;
          var most = _emscripten_get_heap_max();
          var text = 'MemTotal: ' + (most >>> 10) + ' kB\nMemAvailable: ' + ((most - HEAP8.length) >>> 10) + ' kB\n';
          var bytes = intArrayFromString(text, true);
          buffer.set(bytes, offset);
          return bytes.length;
        }
      });
      FS.mkdev('/proc/meminfo', 292, device); // 0444
      // Times are whole seconds, so that two edits within one second look like one.
      var doStat = SYSCALLS.doStat;
      SYSCALLS.doStat = function(stat, path, buf) {
        var made;
        var result = doStat(function(path) { return made = stat(path); }, path, buf);
        if (result === 0) {
          {{{ makeSetValue('buf', C_STRUCTS.stat.st_mtim.tv_nsec, '(made.mtime.getTime() % 1000) * 1000000', 'i32') }}};
        }
        return result;
      };
    }
  },
  // The library's own asks the path that the file had when it was opened; a run's directory gets
  // its name while its files are open.
  __syscall_fstat64__deps: ['$SYSCALLS', '$Files'],
  __syscall_fstat64: function(fd, buf) {
    var stream = SYSCALLS.getStreamFromFD(fd);
    return SYSCALLS.doStat(function() { return stream.node.node_ops.getattr(stream.node); }, stream.path, buf);
  },
});
