import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.internals.Topic;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseData;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupCoordinatorService;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredSubtopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.EndpointToPartitionsManager;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.slf4j.LoggerFactory;

/**
 * Calls the classes of Kafka's group coordinator for streams groups. Each line of the input is a
 * JSON document with a "call" and its arguments; each line of the output is the result.
 */
public final class StreamsClasses {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode given = JSON.readTree(line);
      ObjectNode found = JSON.createObjectNode();
      try {
        if (given.get("call").asText().equals("assign")) {
          assign(given, found);
        } else {
          configure(given, found);
        }
      } catch (Exception error) {
        found.put("error", error.getClass().getSimpleName());
        found.put("message", error.getMessage());
      }
      System.out.println(JSON.writeValueAsString(found));
    }
  }

  private static void assign(JsonNode given, ObjectNode found) {
    Map<String, AssignmentMemberSpec> members = new TreeMap<>();
    for (var each : given.get("members").properties()) {
      JsonNode member = each.getValue();
      members.put(
          each.getKey(),
          new AssignmentMemberSpec(
              Optional.empty(),
              Optional.empty(),
              tasks(member.get("active")),
              tasks(member.get("standby")),
              Map.of(),
              member.get("process").asText(),
              Map.of(),
              Map.of(),
              Map.of()));
    }
    Map<String, String> configs =
        Map.of("num.standby.replicas", given.get("standby_replicas").asText());
    JsonNode subtopologies = given.get("subtopologies");
    TopologyDescriber described =
        new TopologyDescriber() {
          public List<String> subtopologies() {
            List<String> names = new ArrayList<>();
            subtopologies.fieldNames().forEachRemaining(names::add);
            return names;
          }

          public int maxNumInputPartitions(String id) {
            return subtopologies.get(id).get(0).asInt();
          }

          public boolean isStateful(String id) {
            return subtopologies.get(id).get(1).asBoolean();
          }
        };
    new StickyTaskAssignor()
        .assign(new GroupSpecImpl(members, configs), described)
        .members()
        .forEach(
            (id, target) -> {
              ObjectNode member = found.putObject(id);
              member.set("active", sorted(target.activeTasks()));
              member.set("standby", sorted(target.standbyTasks()));
            });
  }

  private static Map<String, Set<Integer>> tasks(JsonNode given) {
    Map<String, Set<Integer>> found = new TreeMap<>();
    for (var each : given.properties()) {
      Set<Integer> partitions = new TreeSet<>();
      each.getValue().forEach(partition -> partitions.add(partition.asInt()));
      found.put(each.getKey(), partitions);
    }
    return found;
  }

  private static ObjectNode sorted(Map<String, Set<Integer>> tasks) {
    ObjectNode found = JSON.createObjectNode();
    new TreeMap<>(tasks).forEach((id, each) -> new TreeSet<>(each).forEach(found.withArray("/" + id)::add));
    return found;
  }

  /** The image of "topics"; the checks of the handler, then of the coordinator. */
  private static void configure(JsonNode given, ObjectNode found) throws Exception {
    var topology = new StreamsGroupHeartbeatRequestData.Topology().setEpoch(1);
    ArrayNode internal = found.putArray("internal");
    ArrayNode illegal = found.putArray("illegal");
    for (JsonNode each : given.get("subtopologies")) {
      topology.subtopologies().add(subtopology(each));
      for (String name : names(topology.subtopologies().get(topology.subtopologies().size() - 1))) {
        if (Topic.isInternal(name)) {
          internal.add(name);
        }
        if (!Topic.isValid(name)) {
          illegal.add(name);
        }
      }
    }
    Method check =
        GroupCoordinatorService.class.getDeclaredMethod(
            "throwIfInvalidTopology", StreamsGroupHeartbeatRequestData.Topology.class);
    check.setAccessible(true);
    try {
      check.invoke(null, topology);
    } catch (InvocationTargetException error) {
      throw (Exception) error.getCause();
    }
    CoordinatorMetadataImage image = new Image(given.get("topics"));
    StreamsTopology read = StreamsTopology.fromHeartbeatRequest(topology);
    found.set("required", JSON.valueToTree(new TreeSet<>(read.requiredTopics())));
    ConfiguredTopology configured =
        InternalTopicManager.configureTopics(
            LoggerFactory.getLogger("quiet"), "g", "m", 0L, read, image, Time.SYSTEM);
    configured
        .topicConfigurationException()
        .ifPresent(
            error -> {
              found.put("status", error.status().code());
              found.put("detail", error.getMessage());
            });
    found.put("ready", configured.isReady());
    ObjectNode missing = found.putObject("missing");
    configured
        .internalTopicsToBeCreated()
        .forEach(
            (name, topic) -> {
              ObjectNode each = missing.putObject(name);
              each.put("partitions", topic.numPartitions());
              each.put("replication_factor", topic.replicationFactor());
              ObjectNode configs = each.putObject("configs");
              topic.configs().forEach(config -> configs.put(config.name(), config.value()));
            });
    if (configured.subtopologies().isPresent()) {
      Map<String, ConfiguredSubtopology> subtopologies = configured.subtopologies().get();
      ObjectNode tasks = found.putObject("tasks");
      subtopologies.forEach(
          (id, each) ->
              tasks
                  .putArray(id)
                  .add(each.numberOfTasks())
                  .add(!each.stateChangelogTopics().isEmpty()));
      if (configured.isReady()) {
        found.set("endpoint", partitions(tasks(given.get("tasks")), subtopologies, image));
      }
    }
  }

  /** The partitions of these tasks, in order of subtopology and topic. */
  private static ArrayNode partitions(
      Map<String, Set<Integer>> tasks,
      Map<String, ConfiguredSubtopology> subtopologies,
      CoordinatorMetadataImage image)
      throws Exception {
    Method method =
        EndpointToPartitionsManager.class.getDeclaredMethod(
            "topicPartitions", Map.class, Map.class, CoordinatorMetadataImage.class);
    method.setAccessible(true);
    ArrayNode found = JSON.createArrayNode();
    for (var each : tasks.entrySet()) {
      var one = Map.of(each.getKey(), each.getValue());
      var topics = new TreeMap<String, List<Integer>>();
      for (Object topic : (List<?>) method.invoke(null, one, subtopologies, image)) {
        var partitions = (StreamsGroupHeartbeatResponseData.TopicPartition) topic;
        topics.put(partitions.topic(), new ArrayList<>(new TreeSet<>(partitions.partitions())));
      }
      topics.forEach((name, numbers) -> found.addArray().add(name).addPOJO(numbers));
    }
    return found;
  }

  /** All names in the order in which the handler collects them. */
  private static List<String> names(StreamsGroupHeartbeatRequestData.Subtopology subtopology) {
    List<String> names = new ArrayList<>(subtopology.sourceTopics());
    names.addAll(subtopology.repartitionSinkTopics());
    subtopology.repartitionSourceTopics().forEach(topic -> names.add(topic.name()));
    subtopology.stateChangelogTopics().forEach(topic -> names.add(topic.name()));
    return names;
  }

  private static StreamsGroupHeartbeatRequestData.Subtopology subtopology(JsonNode given) {
    var found =
        new StreamsGroupHeartbeatRequestData.Subtopology()
            .setSubtopologyId(given.get("subtopology_id").asText())
            .setSourceTopics(texts(given.get("source_topics")))
            .setRepartitionSinkTopics(texts(given.get("repartition_sink_topics")))
            .setRepartitionSourceTopics(topics(given.get("repartition_source_topics")))
            .setStateChangelogTopics(topics(given.get("state_changelog_topics")));
    for (JsonNode group : given.get("copartition_groups")) {
      found
          .copartitionGroups()
          .add(
              new StreamsGroupHeartbeatRequestData.CopartitionGroup()
                  .setSourceTopics(indexes(group.get("source_topics")))
                  .setRepartitionSourceTopics(indexes(group.get("repartition_source_topics"))));
    }
    return found;
  }

  private static List<StreamsGroupHeartbeatRequestData.TopicInfo> topics(JsonNode given) {
    List<StreamsGroupHeartbeatRequestData.TopicInfo> found = new ArrayList<>();
    for (JsonNode each : given) {
      List<StreamsGroupHeartbeatRequestData.KeyValue> configs = new ArrayList<>();
      for (JsonNode config : each.get("configs")) {
        configs.add(
            new StreamsGroupHeartbeatRequestData.KeyValue()
                .setKey(config.get(0).asText())
                .setValue(config.get(1).asText()));
      }
      found.add(
          new StreamsGroupHeartbeatRequestData.TopicInfo()
              .setName(each.get("name").asText())
              .setPartitions(each.get("partitions").asInt())
              .setReplicationFactor((short) each.get("replication_factor").asInt())
              .setTopicConfigs(configs));
    }
    return found;
  }

  private static List<String> texts(JsonNode given) {
    List<String> found = new ArrayList<>();
    given.forEach(each -> found.add(each.asText()));
    return found;
  }

  private static List<Short> indexes(JsonNode given) {
    List<Short> found = new ArrayList<>();
    given.forEach(each -> found.add((short) each.asInt()));
    return found;
  }

  private record OneTopic(String name, Uuid id, int partitionCount)
      implements CoordinatorMetadataImage.TopicMetadata {
    public List<String> partitionRacks(int partition) {
      return List.of();
    }
  }

  /** Topics with a name and a partition count. */
  private record Image(JsonNode topics) implements CoordinatorMetadataImage {
    public Optional<TopicMetadata> topicMetadata(String name) {
      return Optional.ofNullable(topics.get(name))
          .map(count -> new OneTopic(name, Uuid.ZERO_UUID, count.asInt()));
    }

    public Optional<TopicMetadata> topicMetadata(Uuid id) {
      return Optional.empty();
    }

    public Set<Uuid> topicIds() {
      return Set.of();
    }

    public Set<String> topicNames() {
      return Set.of();
    }

    public CoordinatorMetadataDelta emptyDelta() {
      throw new UnsupportedOperationException();
    }

    public long version() {
      return 0;
    }

    public boolean isEmpty() {
      return topics.isEmpty();
    }
  }
}
