import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.Version;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.knn.plugin.KNNPlugin;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.PluginInfo;

/**
 * Runs one node on loopback until the process ends: {@code Launcher FOLDER HTTP_PORT TRANSPORT_PORT [MANAGER_PORT]}.
 * With the transport port of another node it joins that node's cluster and holds data only.
 */
public final class Launcher extends Node {
    @SuppressWarnings({"unchecked", "rawtypes"}) // version 2 takes classes, version 3 their descriptions
    private Launcher(Environment environment) throws Exception {
        super(environment, (Collection) List.of(
            plugin("org.opensearch.transport.Netty4", "Plugin", "ModulePlugin"),
            plugin("org.opensearch.painless.Painless", "Plugin", "ModulePlugin"),
            plugin(KNNPlugin.class.getName(), "", "")), true);
    }

    private static Object plugin(String name, String before, String since) throws Exception {
        if (Version.CURRENT.major < 3) {
            return Class.forName(name + before);
        }
        return new PluginInfo(
            name + since, "", "1", Version.CURRENT, "17", name + since, null, List.<String>of(), false);
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
