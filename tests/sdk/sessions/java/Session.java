import com.fasterxml.jackson.databind.ObjectMapper;
import headgate.ApiClient;
import headgate.ApiException;
import headgate.api.DeliveryApi;
import headgate.api.EntriesApi;
import headgate.api.GroupsApi;
import headgate.model.Append;
import headgate.model.GroupInput;
import headgate.model.Ids;
import headgate.model.ReadGroup;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A session with the client that {@code openapi-generator -g java --library native} makes. */
public final class Session {
  public static void main(String[] words) throws Exception {
    ApiClient client = new ApiClient();
    client.updateBaseUri(words[0]);
    EntriesApi entries = new EntriesApi(client);
    GroupsApi groups = new GroupsApi(client);
    DeliveryApi delivery = new DeliveryApi(client);
    ObjectMapper json = new ObjectMapper();
    String refused = "";
    try {
      entries.appendEntry("talk", new Append().fields(Map.of("text", "zero")), null, null, null);
    } catch (ApiException error) {
      refused = json.readTree(error.getResponseBody()).get("code").asText();
    }
    String bearer = "Bearer " + System.getenv("HEADGATE_TOKEN");
    client.setRequestInterceptor(request -> request.header("Authorization", bearer));
    entries = new EntriesApi(client);
    groups = new GroupsApi(client);
    delivery = new DeliveryApi(client);

    List<String> ids = new ArrayList<>();
    for (String text : List.of("one", "two", "three")) {
      Append append = new Append().fields(Map.of("text", text));
      ids.add(entries.appendEntry("talk", append, null, null, null).getId());
    }
    var group = groups.createGroup("talk", "readers", new GroupInput().start("0"));
    ReadGroup wanted = new ReadGroup().limit(2L);
    var read = delivery.readGroup("talk", "readers", "me", null, wanted);
    Ids first = new Ids().ids(ids.subList(0, 1));
    var acked = delivery.ackEntries("talk", "readers", first, "me", null);
    var pending = delivery.listPending("talk", "readers", null, null, null, "me", null);
    String problem = "";
    try {
      delivery.readGroup("talk", "nobody", "me", null, wanted);
    } catch (ApiException error) {
      problem = json.readTree(error.getResponseBody()).get("code").asText();
    }

    Map<String, Object> told = new LinkedHashMap<>();
    told.put("ids", ids);
    told.put("lag", group.getLag());
    told.put(
        "read",
        read.getEntries().stream()
            .map(one -> List.of(one.getId(), one.getFields().get("text")))
            .toList());
    told.put(
        "outcomes", acked.getResults().stream().map(one -> one.getOutcome().getValue()).toList());
    told.put(
        "pending",
        pending.getPending().stream()
            .map(one -> List.of(one.getId(), one.getConsumer()))
            .toList());
    told.put("problem", problem);
    told.put("refused", refused);
    System.out.println(json.writeValueAsString(told));
  }
}
