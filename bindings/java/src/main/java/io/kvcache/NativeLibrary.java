// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Loads the native part, libkvcache_java.so: the file that the property kvcache.library names, else the environment variable KVC_JAVA_LIBRARY,
 * else the one in a folder of java.library.path, else the one in the jar. It must have the version of the jar.
 */
final class NativeLibrary {
  private static final String FILE = System.mapLibraryName("kvcache_java");
  private static final String ELSE = "name it by -Dkvcache.library=/path/" + FILE + " or KVC_JAVA_LIBRARY";

  private NativeLibrary() {}

  static void load() {
    Path given = given();
    if (given != null) {
      System.load(given.toAbsolutePath().toString());
    } else {
      loadFromJar();
    }
    String jar = NativeLibrary.class.getPackage().getImplementationVersion(); // null: classes in a folder
    int v = NativeJNI.kvc_version();
    String own = v / 10000 + "." + v / 100 % 100 + "." + v % 100;
    if (jar != null && !jar.equals(own)) {
      throw new UnsatisfiedLinkError((given == null ? "the native part" : given) + " is of version " + own + ", the jar of " + jar);
    }
  }

  /** The file that overrides the one in the jar, or null. */
  private static Path given() {
    String file = System.getProperty("kvcache.library", System.getenv("KVC_JAVA_LIBRARY"));
    if (file != null && !file.isEmpty()) {
      return Path.of(file);
    }
    for (String folder : System.getProperty("java.library.path", "").split(":")) {
      if (!folder.isEmpty() && Files.isRegularFile(Path.of(folder, FILE))) {
        return Path.of(folder, FILE);
      }
    }
    return null;
  }

  /** Unpacks into a new folder that only this user can enter, and removes it: a loaded library needs its file no more. */
  private static void loadFromJar() {
    String platform = "linux-" + System.getProperty("os.arch");
    try (InputStream in = NativeLibrary.class.getResourceAsStream("native/" + platform + "/" + FILE)) {
      if (in == null) {
        throw new UnsatisfiedLinkError("this jar of kvcache has no native part for " + platform + "; " + ELSE);
      }
      Path folder = Files.createTempDirectory("kvcache"), copy = folder.resolve(FILE);
      try {
        Files.copy(in, copy);
        System.load(copy.toString());
      } catch (UnsatisfiedLinkError error) {
        throw new UnsatisfiedLinkError(error.getMessage() + "; if programs may not run in " + folder.getParent()
            + ", choose another folder with -Djava.io.tmpdir, or unpack the native part of the jar and " + ELSE);
      } finally {
        Files.deleteIfExists(copy);
        Files.deleteIfExists(folder);
      }
    } catch (IOException error) {
      throw new UnsatisfiedLinkError("the native part of kvcache cannot be unpacked (" + error + "); " + ELSE);
    }
  }
}
