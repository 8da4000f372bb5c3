// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** Loads the native part: the file that the property kvcache.library names, else the one in the jar, else from java.library.path. */
final class NativeLibrary {
  private NativeLibrary() {}

  static void load() {
    String file = System.getProperty("kvcache.library");
    if (file != null) {
      System.load(file);
      return;
    }
    String resource = "native/linux-" + System.getProperty("os.arch") + "/libkvcache_java.so";
    try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
      if (in == null) {
        System.loadLibrary("kvcache_java");
        return;
      }
      Path copy = Files.createTempFile("libkvcache_java", ".so");
      try {
        Files.copy(in, copy, StandardCopyOption.REPLACE_EXISTING);
        System.load(copy.toString());
      } finally {
        Files.deleteIfExists(copy);
      }
    } catch (IOException error) {
      throw new UncheckedIOException("the native part of kvcache cannot be unpacked; name it by -Dkvcache.library", error);
    }
  }
}
