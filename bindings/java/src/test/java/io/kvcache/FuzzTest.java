// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.RecordComponent;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.jar.JarFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Calls of every public method with hostile arguments; run with -Xcheck:jni, whose warnings fail the test. */
class FuzzTest {
  private static final int CALLS = 60_000 * ManagerTest.ROUNDS, SECONDS = 30 * ManagerTest.ROUNDS;
  private static final Set<String> OFTEN = Set.of("Manager.allocate", "Request.commit", "Manager.pin", "Manager.unpin", "Request.append", "Storage.attend",
      "Storage.gather", "Storage.store", "Step.run", "Storage.selectBlocks", "Manager.registerPrompt", "Manager.allocateFromPrompt");

  /** Those that a class declares, and those that are written for it. */
  static List<Method> methods(Class<?> type) {
    List<Method> all = new ArrayList<>(List.of(type.getDeclaredMethods()));
    if (type.getSuperclass() != null && type.getSuperclass().getSimpleName().endsWith("Calls")) {
      all.addAll(List.of(type.getSuperclass().getDeclaredMethods()));
    }
    return all;
  }

  /** Public methods and constructors of the package, but for what the language writes itself. */
  private static Map<String, List<Executable>> publicMembers() throws Exception {
    Map<String, List<Executable>> members = new TreeMap<>();
    Path jar = Path.of(Manager.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    try (JarFile file = new JarFile(jar.toFile())) {
      for (String entry : Collections.list(file.entries()).stream().map(Object::toString).filter(name -> name.endsWith(".class")).toList()) {
        Class<?> type = Class.forName(entry.substring(0, entry.length() - 6).replace('/', '.'), false, FuzzTest.class.getClassLoader());
        if (!Modifier.isPublic(type.getModifiers()) || type.isEnum() || type.getSimpleName().endsWith("Calls")) {
          continue;
        }
        Set<String> written = new TreeSet<>(Set.of("equals", "hashCode", "toString"));
        if (type.isRecord()) {
          for (RecordComponent component : type.getRecordComponents()) {
            written.add(component.getName());
          }
        }
        List<Executable> all = new ArrayList<>(methods(type));
        all.addAll(type.isRecord() ? List.of() : List.of(type.getDeclaredConstructors()));
        for (Executable member : all) {
          String name = member instanceof Constructor ? "new" : ((Method) member).getName();
          if (Modifier.isPublic(member.getModifiers()) && !member.isSynthetic() && !written.contains(name)) {
            members.computeIfAbsent(type.getName().substring("io.kvcache.".length()) + "." + name, unused -> new ArrayList<>()).add(member);
          }
        }
      }
    }
    return members;
  }

  private static boolean isAnAnswer(Throwable error) {
    if (error instanceof KvCacheException own) {
      return own.status() != Native.KVC_ERROR_INTERNAL && own.status() != Native.KVC_ERROR_CORRUPT;
    }
    return error instanceof IllegalArgumentException || error instanceof IllegalStateException || error instanceof NullPointerException
        || error instanceof IndexOutOfBoundsException || error instanceof ArithmeticException;
  }

  @Test
  void hostileArgumentsAreRefused(@TempDir Path folder) throws Exception {
    long seed = Long.parseLong(System.getenv().getOrDefault("KVC_FUZZ_SEED", "1"));
    String given = System.getenv("KVC_FUZZ_CALLS");
    int calls = given == null ? CALLS : Integer.parseInt(given);
    long end = given == null ? System.nanoTime() + SECONDS * 1_000_000_000L : Long.MAX_VALUE;
    System.out.println("fuzz: seed " + seed); // also when a call ends the process
    Hostile hostile = new Hostile(seed);
    FuzzCalls fuzz = new FuzzCalls(hostile, folder.resolve("checkpoints"));
    Map<String, List<Executable>> members = publicMembers();
    new FuzzDerived(fuzz, hostile).add(members);
    assertEquals(members.keySet(), fuzz.table.keySet());
    List<String> names = new ArrayList<>(fuzz.table.keySet());
    for (int i = 0; i < 8; ++i) {
      names.addAll(new TreeSet<>(OFTEN));
    }
    List<String> neverDone = new ArrayList<>(new TreeSet<>(names)); // these have every other turn
    Map<String, Integer> done = new HashMap<>(), refused = new HashMap<>();
    int number = 0;
    for (; number < calls && System.nanoTime() < end; ++number) {
      if (number % 500 == 499) {
        fuzz.renew();
      }
      List<String> from = neverDone.isEmpty() || hostile.random.nextBoolean() ? names : neverDone;
      String name = from.get(hostile.random.nextInt(from.size())), where = "seed " + seed + ", call " + number + ": " + name;
      long before = fuzz.manager.digest();
      boolean failed = false;
      try {
        fuzz.table.get(name).run();
        done.merge(name, 1, Integer::sum);
        neverDone.remove(name);
      } catch (Throwable error) {
        if (!isAnAnswer(error)) {
          fail(where, error);
        }
        failed = true;
        refused.merge(name, 1, Integer::sum);
      }
      fuzz.manager.check();
      if (failed) {
        assertEquals(before, fuzz.manager.digest(), where + " failed and changed the manager");
      }
    }
    fuzz.close();
    for (String name : fuzz.table.keySet()) {
      String counts = name + ": " + done.getOrDefault(name, 0) + " done, " + refused.getOrDefault(name, 0) + " refused";
      if (given != null) {
        System.out.println(counts);
      }
      assertTrue(done.containsKey(name) || number < 20_000, counts);
    }
    System.out.println("fuzz: " + number + " calls, " + done.values().stream().mapToInt(Integer::intValue).sum() + " done");
  }
}
