import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.knn.plugin.KNNPlugin;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.transport.Netty4Plugin;

/**
 * Runs one node on loopback until the process ends: {@code Launcher FOLDER HTTP_PORT TRANSPORT_PORT [MANAGER_PORT]}.
 * With the transport port of another node it joins that node's cluster and holds data only.
 */
public final class Launcher extends Node {
    private Launcher(Environment environment) {
        super(environment, List.of(Netty4Plugin.class, PainlessPlugin.class, KNNPlugin.class), true);
    }

    public static void main(String[] args) throws Exception {
        String name = "node-" + args[2];
        boolean joins = args.length > 3;
        String manager = joins ? args[3] : args[2];
        Settings.Builder settings = Settings.builder()
            .put("path.home", args[0])
            .put("cluster.name", "test-" + manager)
            .put("node.name", name)
            .put("network.host", "127.0.0.1")
            .put("http.port", args[1])
            .put("transport.port", args[2])
            .put("http.type", "netty4")
            .put("transport.type", "netty4")
            .put("discovery.seed_hosts", "127.0.0.1:" + manager)
            .put("cluster.routing.allocation.disk.threshold_enabled", false);
        if (joins) {
            settings.putList("node.roles", "data");
        } else {
            settings.putList("cluster.initial_cluster_manager_nodes", name);
        }
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            settings.build(), Map.of(), Path.of(args[0], "config"), () -> name);
        new Launcher(environment).start();
        new CountDownLatch(1).await();
    }
}
