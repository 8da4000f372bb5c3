// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Executes a scenario (tests/scenario/README.md) through this package and prints its trace. */
final class Scenario {
  private Manager m;
  private Step step;
  private long stepId;
  private long cursor;
  private final Map<Integer, Long> requests = new HashMap<>(), namespaces = new HashMap<>(), pins = new HashMap<>();

  static IntBuffer sequence(int first, int count) {
    return Buffers.ints(count).put(IntStream.range(first, first + count).toArray()).flip();
  }

  private Request request(int name) {
    return m.request(requests.getOrDefault(name, 0L));
  }

  private long namespace(int name) {
    return namespaces.getOrDefault(name, 0L);
  }

  private long ofCurve(int name) {
    return name < 0 ? Manager.ALL_NAMESPACES : namespace(name);
  }

  private static String list(int... values) {
    return Arrays.stream(values).mapToObj(value -> " " + value).collect(Collectors.joining());
  }

  private static String list(LongBuffer values) {
    return IntStream.range(0, values.limit()).mapToObj(i -> " " + values.get(i)).collect(Collectors.joining());
  }

  private long[] policy = {0, 0, 0};
  private int quotas;
  private long recordBytes;
  private byte[] log = {};
  private boolean hints;
  private int[] fills = new int[3], encoder = new int[2];
  private final List<Config.Group> groups = new ArrayList<>();
  private boolean headroom;
  private boolean partial;
  private long room;
  private RequestOptions.Headroom mode = RequestOptions.Headroom.NONE;
  private Workload workload;
  private Sizer sizer;

  private static String list(long... values) {
    return Arrays.stream(values).mapToObj(value -> " " + value).collect(Collectors.joining());
  }

  private String rates(long[] a) throws KvCacheException {
    double[] rates = m.hitRates(ofCurve((int) a[0]), Arrays.copyOfRange(a, 1, a.length));
    return list(Arrays.stream(rates).mapToLong(rate -> (long) (rate * 1e6)).toArray());
  }

  private final SpeculationScenario speculation = new SpeculationScenario();
  private Scheduler scheduler;
  private final java.util.ArrayDeque<Scheduler.Plan> plans = new java.util.ArrayDeque<>(); // in flight, the oldest first
  private Scheduler.Plan last;

  /** Name of a request; -1 = it has none. */
  private int name(long id) {
    return requests.entrySet().stream().filter(one -> one.getValue() == id).map(Map.Entry::getKey).findFirst().orElse(-1);
  }

  private String plan(long now) throws KvCacheException {
    last = scheduler.plan(now);
    if (last.numItems() != 0) {
      plans.add(last);
    }
    StringBuilder text = new StringBuilder(" " + last.id());
    for (int i = 0; i < last.numItems(); ++i) {
      text.append(' ').append(name(last.requests().get(i))).append(':').append(last.firstTokens().get(i)).append('+')
          .append(last.tokenOffsets().get(i + 1) - last.tokenOffsets().get(i)).append('/').append(last.numDrafts().get(i))
          .append(last.samples().get(i) != 0 ? "!" : "");
    }
    for (int i = 0; i < last.preempted().capacity(); ++i) {
      text.append(" -").append(name(last.preempted().get(i)));
    }
    last.ended().forEach(end -> text.append(" x").append(name(end.request())));
    return text.toString();
  }

  private String finish(int token, boolean failed) throws KvCacheException {
    Scheduler.Plan plan = plans.isEmpty() ? last : plans.getFirst();
    if (failed) {
      scheduler.fail(plan);
      plans.clear();
      return "";
    }
    int samples = 0, items = plans.isEmpty() ? 0 : plan.numItems();
    LongBuffer offsets = Buffers.longs(items + 1); // each item that samples brings one token: no draft is accepted
    for (int i = 0; i < items; ++i) {
      samples += plan.samples().get(i);
      offsets.put(i + 1, samples);
    }
    IntBuffer tokens = Buffers.ints(samples);
    for (int i = 0; i < samples; ++i) {
      tokens.put(i, token);
    }
    String text = scheduler.finish(plan, tokens, plans.isEmpty() ? null : offsets, null).stream()
        .map(end -> " " + name(end.request()) + ":" + (end.reason().ordinal() + 1) + ":" + end.numNewTokens()).collect(Collectors.joining());
    plans.removeFirst();
    return text;
  }

  private String scheduled() throws KvCacheException {
    Scheduler.Stats s = scheduler.stats();
    scheduler.check();
    return " " + s.waiting() + " " + s.running() + " " + s.preemptions() + " " + s.cachedTokens() + " " + s.recomputedTokens() + " " + s.ended();
  }

  private Tier tier;
  private int tierPage;
  private long tierNow;

  private ByteBuffer pageKeys(int[] a, int group) throws KvCacheException {
    return Tier.pageKeys(m.positionDigests(namespace(a[0]), sequence(a[1], a[2])), group, new byte[32]);
  }

  private String openTier(int[] a) throws KvCacheException {
    tierPage = a[1];
    tierNow = 1;
    tier = new Tier("memory:?bytes=" + a[0] + "&threads=0", tierPage, TierTest.FINGERPRINT);
    return "";
  }

  /** A job for the pages of group 0 of a prompt. */
  private String job(String word, int[] a) throws KvCacheException {
    ByteBuffer keys = pageKeys(a, 0), pages = Buffers.bytes(keys.remaining() / 32 * tierPage);
    for (int i = 0; word.equals("put") && i < pages.limit(); ++i) {
      pages.put(i, (byte) a[3]);
    }
    JobOptions options = new JobOptions().nowNs(tierNow);
    try {
      Tier.Done done = switch (word) {
        case "put" -> tier.put(keys, pages, options);
        case "get" -> tier.get(keys, pages, options);
        case "lease" -> tier.exists(keys, options.leaseNs(a[3]));
        default -> tier.remove(keys, options);
      };
      StringBuilder text = new StringBuilder();
      for (int i = 0; i < done.results().length; ++i) {
        text.append(' ').append(done.results()[i]);
        if (word.equals("get") && done.result(i) == PageResult.OK) {
          text.append(':').append(pages.get(i * tierPage) & 255);
        } else if (word.equals("lease")) {
          text.append(':').append(done.leaseUntilNs()[i]);
        }
      }
      return text.toString();
    } catch (InterruptedException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private String page(int[] a) throws KvCacheException {
    ByteBuffer keys = pageKeys(a, a[3]);
    return IntStream.range(0, keys.remaining() / 32)
        .mapToObj(i -> " " + HexFormat.of().toHexDigits(keys.get(32 * i)) + HexFormat.of().toHexDigits(keys.get(32 * i + 1)))
        .collect(Collectors.joining());
  }

  private String pages() throws KvCacheException {
    Tier.Stats stats = tier.stats();
    Tier.Counts gets = tier.counts(Tier.Kind.GET);
    return list(stats.pages(), stats.evictions(), gets.ok(), gets.misses());
  }

  private static String decision(Sizer.Decision d) {
    return list(d.number(), d.action().ordinal(), d.reason().ordinal(), d.basis().ordinal(), d.fromBlocks(), d.toBlocks());
  }

  private String forecast(long horizon) throws KvCacheException {
    Workload.Info info = workload.read();
    return list(info.numObservations(), (long) (info.average() * 1e3 + 0.5), (long) (info.level() * 1e3 + 0.5), (long) (info.variance() * 1e3 + 0.5),
        (long) (workload.predict(horizon) * 1e3 + 0.5));
  }

  private Config config(long[] a) {
    Config config = new Config().numBlocks(a[0]).blockSize((int) a[1]).eventCapacity(a[2]).maxRequests(a[3])
        .policy(Config.Policy.values()[(int) policy[0]]).policyWeight(policy[1] / 100.0).policyHistory(policy[2])
        .maxQuotas(quotas).recordBytes(recordBytes);
    if (room != 0) {
      config.maxBlocks(room);
    }
    if (partial) {
      config.partialReuse();
    }
    if (headroom) {
      config.headroom();
    }
    if (hints) {
      config.hints();
    }
    if (fills[0] != 0) {
      config.fills();
    }
    return config;
  }

  /** The old manager goes; names of namespaces follow. */
  private String rebuild(int[] a) throws KvCacheException {
    Manager.Rebuilt made = m.rebuild(config(Arrays.stream(a).asLongStream().toArray()));
    namespaces.replaceAll((name, id) -> made.namespaces().getOrDefault(id, id));
    step.close();
    m.close();
    begin(made.manager());
    return made.copies().stream().map(c -> " " + c.source() + "+" + c.offset() + ">" + c.destination() + "+" + c.newOffset() + "*" + c.numTokens())
        .collect(Collectors.joining());
  }

  private void begin(Manager manager) throws KvCacheException {
    stepId = cursor = 0;
    m = manager;
    step = new Step(m, new Step.Limits(8, 8, 8, 16, 0, 4, 160));
  }

  private void manager(long[] a) throws KvCacheException {
    Config config = config(a);
    if (!groups.isEmpty()) {
      config.groups(groups.toArray(new Config.Group[0]));
    } else if (a.length > 4) {
      config.groups(new Config.Group(), new Config.Group(a[4], (int) a[5], 0, 0));
    }
    if (m != null) {
      step.close();
      m.close();
    }
    requests.clear();
    namespaces.clear();
    begin(new Manager(config));
  }

  /** Without ids, each item is refused. */
  private String decode(int[] names, boolean withIds) throws KvCacheException {
    for (int i = 0; i < names.length; ++i) {
      Request request = request(names[i]);
      step.committed().put(i, request.info().numTokens());
      step.requests().put(i, request.id());
      step.extendOffsets().put(i + 1, i + 1);
    }
    for (int i = 0; withIds && i < names.length; ++i) {
      step.extendTokens().put(i, 7);
    }
    stepId = step.counts(names.length, 0, 0).run(stepId);
    return IntStream.range(0, names.length).mapToObj(i -> " " + step.status().get(i) + ":" + step.slots().get(i)).collect(Collectors.joining());
  }

  private String arrive(int[] a) throws KvCacheException {
    RequestOptions[] options = new RequestOptions[a.length / 5];
    int end = 0;
    for (int i = 0; i < options.length; ++i) {
      options[i] = new RequestOptions().namespace(namespace(a[5 * i + 1])).slots(a[5 * i + 2]).flags(fills[1]).waitUntilNs(fills[2]);
      heard(options[i]);
      step.admitTokens().put(end, IntStream.range(a[5 * i + 3], a[5 * i + 3] + a[5 * i + 4]).toArray());
      end += a[5 * i + 4];
      step.admitOffsets().put(i + 1, end);
    }
    stepId = step.counts(0, 0, options.length).run(stepId, options);
    for (int i = 0; i < options.length; ++i) {
      if (step.status().get(i) == 0) {
        requests.put(a[5 * i], step.admitted().get(i));
      }
    }
    return IntStream.range(0, options.length).mapToObj(i -> " " + step.status().get(i) + ":" + step.cached().get(i)).collect(Collectors.joining());
  }

  private String events() throws KvCacheException {
    Event.Batch batch = m.events(cursor);
    cursor = batch.next();
    return batch.events().stream().map(e -> " " + e.kind() + ":" + e.group() + ":" + e.block() + ":" + e.tokenOffset() + ":"
        + HexFormat.of().formatHex(e.digest(), 0, 2)).collect(Collectors.joining());
  }

  private String stats() throws KvCacheException {
    Stats s = m.stats();
    return list(Buffers.longs(12).put(new long[] {s.blocksFree(), s.blocksCached(), s.blocksLive(), s.blocksReserved(), s.blocksPinned(),
        s.liveRequests(), s.admissions(), s.cachedTokens(), s.evictions(), s.publishedBlocks(), s.duplicates(), s.refusals()}).flip());
  }

  private String lost(int group) throws KvCacheException {
    Manager.LostReuse l = m.lostReuse(group);
    return list(Buffers.longs(6).put(new long[] {l.admissions(), l.blockTokens(), l.windowTokens(), l.stateTokens(), l.agreementTokens(), l.nodeTokens()})
        .flip());
  }

  private String blame(Request.Info i) {
    return list(Buffers.longs(3).put(new long[] {i.lostReuseTokens(), i.lostGroup(), i.lostReason()}).flip());
  }

  private String share(int[] a) throws KvCacheException {
    Manager.QuotaInfo q = m.quotaInfo(namespace(a[0]), a[1]);
    return list(Buffers.longs(9).put(new long[] {q.minBlocks(), q.maxBlocks(), q.held(), q.cached(), q.fenced(), q.available(), q.refusals(),
        q.blockQueries(), q.blockHits()}).flip());
  }

  /** All parts, replayed. */
  private String log() throws KvCacheException {
    byte[] part = m.takeLog();
    byte[] all = Arrays.copyOf(log, log.length + part.length);
    System.arraycopy(part, 0, all, log.length, part.length);
    log = all;
    Manager.LogReplay r = Manager.replayLog(log);
    return " " + r.calls() + " " + r.mismatches() + " " + r.lostCalls() + " " + Long.toUnsignedString(r.digest());
  }

  private RequestOptions heard(RequestOptions options) {
    byte[] digest = new byte[32];
    Arrays.fill(digest, (byte) encoder[1]);
    return options.crossTokens(encoder[0], digest);
  }

  private RequestOptions options(int namespace) {
    return heard(new RequestOptions().namespace(namespace(namespace)).headroom(mode));
  }

  private static String pairs(List<int[]> copies) {
    return copies.stream().map(pair -> " " + pair[0] + ">" + pair[1]).collect(Collectors.joining());
  }

  private String allocate(int[] a) throws KvCacheException {
    Request made = m.allocate(sequence(a[2], a[3]), options(a[1]));
    requests.put(a[0], made.id());
    return " " + made.cached();
  }

  private String acquire(int[] a) throws KvCacheException {
    Request made = m.allocateFromPrompt("p" + a[1], sequence(a[2], a[3]), null);
    requests.put(a[0], made.id());
    return " " + made.cached();
  }

  private String take(int[] a) throws KvCacheException {
    IntBuffer blocks = Buffers.ints(a[1]);
    m.acquireBlocks(a[0], blocks);
    int[] taken = new int[a[1]];
    blocks.get(taken);
    return list(taken);
  }

  private String slots(int[] a) throws KvCacheException {
    LongBuffer slots = Buffers.longs(a[3]);
    request(a[0]).slots(a[1], a[2], slots);
    return list(slots);
  }

  private String execute(String word, long[] numbers) throws KvCacheException {
    int[] a = Arrays.stream(numbers).mapToInt(number -> (int) number).toArray();
    switch (word) {
      case "policy" -> policy = numbers;
      case "manager" -> manager(numbers); // a window may have 2^40 tokens
      case "group" -> {
        if (a.length == 0) {
          groups.clear();
        } else {
          groups.add(new Config.Group(numbers[0], a[1], numbers[2], 0, numbers[3], numbers[4] != 0, 0));
        }
      }
      case "hints" -> hints = a[0] != 0;
      case "cross" -> groups.add(Config.Group.cross(0));
      case "encoder" -> encoder = a;
      case "fills" -> fills = a;
      case "room" -> room = numbers[0];
      case "partial" -> partial = a[0] != 0;
      case "headroom" -> headroom = a[0] != 0;
      case "mode" -> mode = RequestOptions.Headroom.values()[a[0]];
      case "now" -> step.nowNs(numbers[0]);
      case "time" -> m.setTime(numbers[0]);
      case "priority" -> request(a[0]).setPriority(a[1], numbers[2], a[3], numbers[4]);
      case "over" -> request(a[0]).endSession(a[1]);
      case "unregister" -> m.unregisterPrompt("p" + a[0]);
      case "open" -> namespaces.put(a[0], m.openNamespace(new byte[] {(byte) a[1]}, null, null));
      case "close" -> m.closeNamespace(namespace(a[0]));
      case "curve" -> m.openCurve(ofCurve(a[0]), new Manager.CurveConfig(a[1] / 100.0, 0, numbers[2], 0));
      case "uncurve" -> m.closeCurve(ofCurve(a[0]));
      case "sizer" -> sizer = new Sizer(new Sizer.Config().mode(Sizer.Mode.values()[a[0]]).blocks(0, a[2], a[1]).times(0, numbers[4], 0)
          .shares(0, a[3] / 100.0, 0));
      case "workload" -> workload = new Workload(numbers[0], a[1]);
      case "observe" -> workload.record(numbers[0], a[1]);
      case "rates", "decide", "decided", "forecast" -> {
        return switch (word) {
          case "rates" -> rates(numbers);
          case "decide" -> decision(sizer.decide(numbers[0], a[1]));
          case "decided" -> decision(sizer.readLog(a[0]));
          default -> forecast(numbers[0]);
        };
      }
      case "tree", "greedy", "sampled", "drawn", "typical", "moves", "states", "counted", "halved", "length", "index", "learn", "unlearn", "propose",
          "lookup" -> {
        return speculation.line(word, a);
      }
      case "clock" -> tierNow = numbers[0];
      case "scheduler" -> {
        if (scheduler != null) {
          scheduler.close();
        }
        plans.clear();
        scheduler = new Scheduler(m, new Scheduler.Config().policy(Scheduler.Policy.values()[a[0]], Scheduler.Admission.values()[a[1]]).limits(a[2], a[3], 0)
            .plans(a[4], a[5]));
      }
      case "schedule" -> requests.put(a[0], scheduler.add(sequence(a[2], a[3]), a[4],
          new Scheduler.Job().priority(a[5]).options(new RequestOptions().namespace(namespace(a[1])))));
      case "draft" -> scheduler.setDrafts(Buffers.longs(1).put(0, requests.getOrDefault(a[0], 0L)), Buffers.of(a[1]));
      case "abort" -> scheduler.abort(requests.getOrDefault(a[0], 0L));
      case "quotas" -> quotas = a[0];
      case "record" -> recordBytes = numbers[0];
      case "quota" -> m.setQuota(namespace(a[0]), a[1], a[2], a[3]);
      case "reset" -> m.resetNamespace(namespace(a[0]));
      case "resetall" -> m.resetAll();
      case "caching" -> m.setPrefixCaching(a[0] != 0);
      case "create" -> requests.put(a[0], m.create(sequence(a[2], a[3]), options(a[1])).id());
      case "append" -> request(a[0]).append(sequence(a[1], a[2]));
      case "key" -> {
        byte[] digest = new byte[32];
        java.util.Arrays.fill(digest, (byte) (int) a[3]);
        request(a[0]).addKeys(new RequestOptions.ExtraKey(a[1], a[2], digest));
      }
      case "reserve" -> request(a[0]).reserve(a[1]);
      case "commit" -> request(a[0]).commit(a[1]);
      case "ahead" -> m.commitAhead(request(a[0]).id(), a[1], a[2]);
      case "truncate" -> request(a[0]).truncate(a[1]);
      case "preempt" -> request(a[0]).preempt();
      case "free" -> request(a[0]).free();
      case "fork" -> requests.put(a[1], request(a[0]).fork().id());
      case "pin" -> pins.put(a[0], m.pin(namespace(a[1]), sequence(a[2], a[3])));
      case "unpin" -> m.unpin(pins.getOrDefault(a[0], 0L));
      case "publish" -> {
        int[] blocks = Arrays.copyOfRange(a, 4, a.length);
        m.publishBlocks(namespace(a[0]), a[1], sequence(a[2], a[3]), Buffers.ints(blocks.length).put(blocks).flip());
      }
      case "give" -> m.releaseBlocks(Buffers.ints(a.length).put(a).flip());
      default -> {
        return answer(word, a);
      }
    }
    return "";
  }

  private String answer(String word, int[] a) throws KvCacheException {
    return switch (word) {
      case "allocate" -> allocate(a);
      case "keep" -> " " + m.setPrefixPriority(namespace(a[0]), sequence(a[1], a[2]), a[3], a[4], a[5]);
      case "demote" -> " " + m.setPrefixPriority(namespace(a[0]), sequence(a[1], a[2]), a[3], Manager.PRIORITY_DEMOTED, 0);
      case "register" -> " " + m.registerPrompt("p" + a[0], namespace(a[1]), sequence(a[2], a[3]));
      case "acquire" -> acquire(a);
      case "prompts" -> m.prompts().stream().map(name -> " " + name).collect(Collectors.joining());
      case "admit" -> " " + request(a[0]).admit();
      case "together" -> Arrays.stream(m.admitBatch(Buffers.longs(a.length).put(Arrays.stream(a).mapToLong(name -> request(name).id()).toArray()).flip(), null))
          .mapToObj(hit -> " " + hit).collect(Collectors.joining());
      case "copies" -> pairs(m.takePending().copies());
      case "resize" -> pairs(m.resize(a[0], a[1]));
      case "expect" -> " " + m.expectedTokens(RequestOptions.Headroom.values()[a[0]], a[1]);
      case "tier" -> openTier(a);
      case "page" -> page(a);
      case "put", "get", "lease", "erase" -> job(word, a);
      case "pages" -> pages();
      case "plan" -> plan(a[0]);
      case "finish" -> finish(a[0], false);
      case "undone" -> finish(0, true);
      case "scheduled" -> scheduled();
      case "heard" -> " " + request(a[0]).info().numCrossCached();
      case "table" -> list(request(a[0]).blockTable(a[1]));
      case "lost" -> lost(a[0]);
      case "blame" -> blame(request(a[0]).info());
      case "checkpoint" -> " " + request(a[0]).info().nextCheckpoint();
      case "slots" -> slots(a);
      case "probe" -> " " + m.probe(namespace(a[0]), sequence(a[1], a[2]));
      case "drop" -> " " + m.drop(namespace(a[0]), sequence(a[1], a[2]));
      case "evict" -> " " + m.evict(a[0]);
      case "rebuild" -> rebuild(a);
      case "take" -> take(a);
      case "step" -> decode(a, true);
      case "forget" -> decode(a, false);
      case "arrive" -> arrive(a);
      case "fail" -> m.failStep(stepId).stream().flatMap(id -> requests.entrySet().stream().filter(one -> one.getValue().equals(id)))
          .map(one -> " " + one.getKey()).collect(Collectors.joining());
      case "events" -> events();
      case "stats" -> stats();
      case "share" -> share(a);
      case "log" -> log();
      case "digest" -> " " + Long.toUnsignedString(m.digest());
      default -> throw new IllegalArgumentException("no such line: " + word);
    };
  }

  public static void main(String[] arguments) throws IOException, KvCacheException {
    Scenario scenario = new Scenario();
    for (String line : Files.readAllLines(Path.of(arguments[0]))) {
      String[] words = line.strip().split(" +");
      if (words[0].isEmpty() || words[0].startsWith("#")) {
        continue;
      }
      long[] numbers = Arrays.stream(words).skip(1).mapToLong(Long::parseLong).toArray();
      String text;
      try {
        text = "0" + scenario.execute(words[0], numbers);
      } catch (KvCacheException error) {
        text = error.status() + " " + error.getMessage();
      }
      System.out.println(String.join(" ", words) + " = " + text);
    }
    scenario.m.check();
  }
}
