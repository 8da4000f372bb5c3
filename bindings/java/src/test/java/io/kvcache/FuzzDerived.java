// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Parameter;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

/** Calls that follow from signatures: what they are called on, and arguments by their types and names. */
final class FuzzDerived {
  interface On {
    void use(FuzzCalls.Using<Object> using) throws Exception;
  }

  private final FuzzCalls calls;
  private final Hostile h;
  private final Map<Class<?>, Callable<Object>> values = new HashMap<>(), closed = new HashMap<>();
  private final Map<Class<?>, On> made = new HashMap<>(); // for one call
  private final Map<Class<?>, Class<?>> owners = new HashMap<>(); // by the class that is written for it

  FuzzDerived(FuzzCalls calls, Hostile h) {
    this.calls = calls;
    this.h = h;
    values.put(Manager.class, calls::m);
    values.put(Request.class, calls::request);
    values.put(Step.class, calls::step);
    values.put(Storage.class, calls::s);
    values.put(Stream.class, calls::stream);
    values.put(StreamEvent.class, calls::event);
    values.put(Tier.class, calls::t);
    values.put(Offload.class, calls::o);
    values.put(RequestOptions.class, calls::options);
    values.put(RequestOptions.ExtraKey[].class, calls::keys);
    values.put(StorageConfig.class, calls::storageConfig);
    values.put(OffloadOptions.class, calls::offloadOptions);
    values.put(CheckpointOptions.class, calls::checkpointOptions);
    values.put(PageConfig.class, calls::pageConfig);
    values.put(JobOptions.class, calls::jobOptions);
    values.put(Attention.class, calls::attention);
    values.put(Model.class, calls::model);
    values.put(Model.Query.class, calls::budget);
    values.put(DType.class, calls::dtype);
    values.put(Path.class, calls::folder);
    values.put(int[].class, calls::tokens);
    for (Class<?> type : List.of(Manager.class, Step.class, Storage.class, Stream.class, StreamEvent.class, Tier.class, Offload.class)) {
      closed.put(type, () -> calls.closed(type));
    }
    made.put(Index.class, using -> calls.index(using::use));
    made.put(Publisher.class, using -> calls.publisher(using::use));
    made.put(Workload.class, using -> calls.workload(using::use));
    made.put(Sizer.class, using -> calls.sizer(using::use));
    made.put(Draft.class, using -> calls.draft(using::use));
    values.keySet().forEach(type -> owners.put(type.getSuperclass(), type));
    made.keySet().forEach(type -> owners.put(type.getSuperclass(), type));
    owners.remove(Object.class);
  }

  /** Adds a call for each member that has none. */
  void add(Map<String, List<Executable>> members) {
    members.forEach((name, all) -> calls.table.putIfAbsent(name, () -> call(all.get(h.random.nextInt(all.size())))));
  }

  private void call(Executable member) throws Exception {
    Class<?> type = owners.getOrDefault(member.getDeclaringClass(), member.getDeclaringClass());
    if (made.containsKey(type) && member instanceof Method && !Modifier.isStatic(member.getModifiers())) {
      made.get(type).use(object -> call(member, object));
    } else if (member.getName().equals("close") && closed.containsKey(type)) {
      call(member, closed.get(type).call());
    } else {
      call(member, member instanceof Constructor || Modifier.isStatic(member.getModifiers()) ? null : value(type, ""));
    }
  }

  /** Keeps a request that it returns, and closes another object. */
  private void call(Executable member, Object on) throws Exception {
    Object result = result(member, on);
    if (result instanceof Request request) {
      calls.keep(request);
    } else if (result instanceof AutoCloseable object) {
      object.close();
    }
  }

  private Object result(Executable member, Object on) throws Exception {
    Parameter[] parameters = member.getParameters();
    Object[] arguments = new Object[parameters.length];
    for (int i = 0; i < arguments.length; ++i) {
      arguments[i] = value(parameters[i].getType(), parameters[i].getName());
    }
    try {
      return member instanceof Constructor<?> constructor ? constructor.newInstance(arguments) : ((Method) member).invoke(on, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause() instanceof Exception cause ? cause : error;
    }
  }

  private Object value(Class<?> type, String name) throws Exception {
    if (values.containsKey(type)) {
      return values.get(type).call();
    } else if (type == int.class) {
      return (int) like(name);
    } else if (type == long.class) {
      return like(name);
    } else if (type == double.class) {
      return calls.amount();
    } else if (type == float.class) {
      return (float) calls.amount();
    } else if (type == boolean.class) {
      return h.random.nextBoolean();
    } else if (type == String.class) {
      return h.rarely(3) ? calls.words() : calls.name();
    } else if (type == byte[].class) {
      return name.matches("root|fingerprint") ? new byte[h.rarely(9) ? 31 : 32] : calls.part();
    } else if (type == long[].class) {
      return new long[] {h.small(2), 1 + h.small(2)};
    } else if (type == IntBuffer.class) {
      return name.equals("blocks") ? calls.blocks() : name.equals("pairs") ? calls.pairs() : calls.prompt();
    } else if (type == LongBuffer.class) {
      return h.longs(h.random.nextInt(6), () -> 0);
    } else if (type == ByteBuffer.class) {
      return name.matches("digests|keys") ? calls.pageKeys() : name.equals("bounds") ? calls.bounds() : calls.pages();
    } else if (type.isEnum()) {
      return h.rarely(9) ? null : type.getEnumConstants()[h.random.nextInt(type.getEnumConstants().length)];
    }
    if (type.isArray()) {
      throw new AssertionError("the fuzz has no value of " + type + " " + name);
    }
    return result(type.isRecord() ? type.getDeclaredConstructors()[0] : type.getConstructor(), null);
  }

  /** Mostly a number that a parameter of this name may have. */
  private long like(String name) {
    return switch (name) {
      case "namespace" -> calls.namespace();
      case "request", "id" -> calls.request().id();
      case "group", "pool", "layer", "worker", "medium", "array", "tier" -> h.small(3);
      case "blockSize" -> h.oneOf(4, 4, 0, 2000);
      case "nowNs" -> h.small(40);
      case "stride", "pageBytes" -> h.oneOf(0, 0, h.number());
      default -> h.number();
    };
  }
}
