// TCP flows on a dumbbell in ns-3, as a reference for our simulator: prints one JSON object.
//
//   s0 --- R1 === R2 --- d0      access links: flow's own delay, ten times the bottleneck's rate, queues without end
//   s1 ---/        \--- d1       bottleneck: drop-tail in packets (the packet in transmission does not count)
//
// Built with:  g++ -std=c++17 -O2 dumbbell.cc -o dumbbell $(pkg-config --cflags-only-I --libs-only-l ns3-applications
//              ns3-point-to-point ns3-internet)      (Debian's --libs names a libgsl.so that libns3-dev does not depend on)
// Run with:    ./dumbbell rate=100133333 queue=417 duration_us=60000000 flow=reno,50000,0 flow=...
//
// What is set, and why, for a comparison of like with like:
// - No flow control between the stack and the devices, and so no queue discipline (ns-3's default is FqCoDel): what is
//   dropped is dropped at the bottleneck's own queue.
// - SACK, window scaling, timestamps, delayed acknowledgements (every second segment), initial window 10, least RTO 200 ms.
// - Recovery by proportional rate reduction (ns-3's default).
// - "scalable": AIFactor 100, so that the window grows by 0.01 of what is acknowledged (ns-3's default is 0.02).
// - "bic": S_max 32, beta 0.125 (window to 0.875), steps of half the distance: the values of the INFOCOM 2004 paper. ns-3's
//   are Linux's of 2006.
// - "cubic": without HyStart, which RFC 9438 leaves open; "cubic-hystart" with it, then for all flows.
// - "highspeed" is by RFC 3649's formulas; ns-3's rounds up to the rows of a table.
// - "scalable" cuts the window; as it comes, ns-3's cuts what is in flight when recovery begins, without what was lost and
//   what came behind the loss.
// - The acknowledgement that ends recovery does not let the window grow. In ns-3 as it comes it counts everything since the
//   first loss once more, a whole flight, and the window is two segments larger after each recovery (Reno's).
// "LAW-stock" is ns-3's law without these last three changes.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <list>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <vector>

using namespace ns3;

namespace
{

// A law of ns-3 that is used as RFC 5681, RFC 6675 and ours use it.
template <class Law>
class Alike : public Law
{
  public:
    // The window is what is cut.
    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t) override
    {
        return Law::GetSsThresh(tcb, tcb->m_cWnd);
    }

    void CwndEvent(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCAEvent_t event) override
    {
        m_ends_recovery = event == TcpSocketState::CA_EVENT_COMPLETE_CWR;
        Law::CwndEvent(tcb, event);
    }

    // The acknowledgement that ends recovery sets the window to the threshold, and that is all.
    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segments) override
    {
        if (!m_ends_recovery)
            Law::IncreaseWindow(tcb, segments);
        m_ends_recovery = false;
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<Alike<Law>>(this);
    }

    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("inhaul::" + Law::GetTypeId().GetName().substr(5))
                                .template SetParent<Law>()
                                .template AddConstructor<Alike<Law>>();
        return tid;
    }

  private:
    bool m_ends_recovery = false;
};

// HighSpeed TCP by the formulas of RFC 3649 section 5. ns-3's own (like Linux's) looks a(w) and b(w) up in appendix B's table,
// whose rows are for the largest window of each whole a(w): between rows it grows faster and is cut less than the formulas say.
class HighSpeed : public TcpNewReno
{
  public:
    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t) override
    {
        return std::max(2 * tcb->m_segmentSize, static_cast<uint32_t>(tcb->m_cWnd * (1.0 - Decrease(Window(tcb)))));
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<HighSpeed>(this);
    }

    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("ns3::HighSpeedByFormula").SetParent<TcpNewReno>().AddConstructor<HighSpeed>();
        return tid;
    }

  protected:
    void CongestionAvoidance(Ptr<TcpSocketState> tcb, uint32_t segments) override
    {
        const double w = Window(tcb);
        const double a = w <= 38.0 ? 1.0 : std::pow(w, 0.8) * 0.078 * 2.0 * Decrease(w) / (2.0 - Decrease(w));
        m_grown += segments * a / w;
        const auto whole = static_cast<uint32_t>(m_grown);
        m_grown -= whole;
        tcb->m_cWnd += whole * tcb->m_segmentSize;
    }

  private:
    static double Window(Ptr<const TcpSocketState> tcb)
    {
        return static_cast<double>(tcb->m_cWnd) / tcb->m_segmentSize;
    }

    static double Decrease(double w)
    {
        if (w <= 38.0)
            return 0.5;
        return std::max(0.1, 0.5 - 0.4 * std::log(w / 38.0) / std::log(83'000.0 / 38.0));
    }

    double m_grown = 0.0;
};

template <class Law>
TypeId
TypeOf(bool as_it_comes)
{
    return as_it_comes ? Law::GetTypeId() : Alike<Law>::GetTypeId();
}

TypeId
LawType(const std::string& law)
{
    const std::string name = law.substr(0, law.find('-'));
    const bool as_it_comes = law.find("-stock") != std::string::npos;
    if (name == "reno")
        return TypeOf<TcpLinuxReno>(as_it_comes);
    if (name == "highspeed")
        return as_it_comes ? TcpHighSpeed::GetTypeId() : Alike<HighSpeed>::GetTypeId();
    if (name == "scalable")
        return TypeOf<TcpScalable>(as_it_comes);
    if (name == "bic")
        return TypeOf<TcpBic>(as_it_comes);
    if (name == "cubic")
        return TypeOf<TcpCubic>(as_it_comes);
    throw std::invalid_argument("unknown law '" + law + "'");
}

struct FlowSpec
{
    std::string law;
    uint64_t rtt_us;   // propagation, both ways together
    uint64_t start_us;
};

struct Spec
{
    uint64_t rate = 100'000'000;            // of the bottleneck, bit/s, PPP header (2 bytes) counted
    uint64_t access_factor = 10;            // access links are this many times as fast
    uint32_t queue = 100;                   // packets
    uint32_t segment = 1'448;               // bytes of data
    uint64_t bottleneck_delay_us = 1'000;   // one way
    uint64_t duration_us = 10'000'000;
    uint64_t step_us = 1'000'000;           // between samples
    double loss = 0.0;                      // probability, on the bottleneck from R1 to R2
    std::list<uint32_t> scripted;           // packets lost there, counted from 0 as they arrive at R2
    uint32_t seed = 1;
    uint32_t buffer = 64u << 20;            // send and receive buffers, bytes
    uint32_t delayed_acks = 2;              // segments for each acknowledgement
    std::vector<FlowSpec> flows;
};

FlowSpec
ParseFlow(const std::string& text)
{
    std::istringstream in(text);
    std::string law, rtt, start;
    if (!std::getline(in, law, ',') || !std::getline(in, rtt, ',') || !std::getline(in, start, ','))
        throw std::invalid_argument("flow=LAW,RTT_US,START_US expected, not '" + text + "'");
    return {law, std::stoull(rtt), std::stoull(start)};
}

Spec
ParseSpec(int argc, char** argv)
{
    Spec spec;
    for (int k = 1; k < argc; ++k)
    {
        const std::string word = argv[k];
        const auto equals = word.find('=');
        const std::string name = word.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
        if (name == "rate")
            spec.rate = std::stoull(value);
        else if (name == "access_factor")
            spec.access_factor = std::stoull(value);
        else if (name == "queue")
            spec.queue = std::stoul(value);
        else if (name == "segment")
            spec.segment = std::stoul(value);
        else if (name == "bottleneck_delay_us")
            spec.bottleneck_delay_us = std::stoull(value);
        else if (name == "duration_us")
            spec.duration_us = std::stoull(value);
        else if (name == "step_us")
            spec.step_us = std::stoull(value);
        else if (name == "loss")
            spec.loss = std::stod(value);
        else if (name == "lose")
            spec.scripted.push_back(std::stoul(value));
        else if (name == "seed")
            spec.seed = std::stoul(value);
        else if (name == "buffer")
            spec.buffer = std::stoul(value);
        else if (name == "delayed_acks")
            spec.delayed_acks = std::stoul(value);
        else if (name == "flow")
            spec.flows.push_back(ParseFlow(value));
        else
            throw std::invalid_argument("unknown parameter '" + word + "'");
    }
    return spec;
}

void
SetDefaults(const Spec& spec)
{
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(spec.buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(spec.buffer));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(spec.segment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(spec.delayed_acks));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpPrrRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpScalable::AIFactor", UintegerValue(100));
    Config::SetDefault("ns3::TcpBic::MaxIncr", UintegerValue(32));
    Config::SetDefault("ns3::TcpBic::Beta", DoubleValue(0.875));
    Config::SetDefault("ns3::TcpBic::BinarySearchCoefficient", UintegerValue(2));
    const bool hystart = std::any_of(spec.flows.begin(), spec.flows.end(), [](const FlowSpec& flow) {
        return flow.law.find("-hystart") != std::string::npos;
    });
    Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(hystart));
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(spec.seed);
}

// What is measured of a flow while the simulation runs.
struct Flow
{
    FlowSpec spec;
    uint32_t segment = 0;
    Ptr<BulkSendApplication> source;
    Ptr<PacketSink> sink;
    uint32_t window_bytes = 0;
    std::vector<uint64_t> received;     // bytes in all, a sample
    std::vector<uint32_t> windows;      // segments, a sample

    void Watch()
    {
        source->GetSocket()->TraceConnectWithoutContext("CongestionWindow", MakeCallback(&Flow::OnWindow, this));
    }

    void OnWindow(uint32_t, uint32_t now)
    {
        window_bytes = now;
    }

    void Sample()
    {
        received.push_back(sink->GetTotalRx());
        windows.push_back(window_bytes / segment);
    }
};

class Dumbbell
{
  public:
    explicit Dumbbell(const Spec& spec)
        : m_spec(spec)
    {
        m_routers.Create(2);
        m_stack.Install(m_routers);
        m_addresses.SetBase("10.0.0.0", "255.255.255.252");
        const NetDeviceContainer devices = Connect(m_routers, spec.rate, spec.bottleneck_delay_us, spec.queue);
        auto near = DynamicCast<PointToPointNetDevice>(devices.Get(0));
        near->GetQueue()->TraceConnectWithoutContext("Drop", MakeCallback(&Dumbbell::OnDrop, this));
        auto far = DynamicCast<PointToPointNetDevice>(devices.Get(1));
        far->TraceConnectWithoutContext("PhyRxDrop", MakeCallback(&Dumbbell::OnLoss, this));
        SetLoss(far);
        for (const FlowSpec& flow : spec.flows)
            AddFlow(flow);
        Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    }

    void Run()
    {
        const auto began = std::chrono::steady_clock::now();
        for (uint64_t at = m_spec.step_us; at <= m_spec.duration_us; at += m_spec.step_us)
            Simulator::Schedule(MicroSeconds(at), &Dumbbell::Sample, this);
        Simulator::Stop(MicroSeconds(m_spec.duration_us) + NanoSeconds(1));
        Simulator::Run();
        m_wall = std::chrono::steady_clock::now() - began;
    }

    void Print(std::ostream& out) const
    {
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        out << "{\"wall_s\":" << m_wall.count() << ",\"hops\":" << m_hops << ",\"queue_drops\":" << m_drops
            << ",\"random_drops\":" << m_losses << ",\"memory_kib\":" << usage.ru_maxrss
            << ",\"step_s\":" << m_spec.step_us / 1e6 << ",\"flows\":[";
        for (size_t k = 0; k < m_flows.size(); ++k)
        {
            const Flow& flow = *m_flows[k];
            out << (k ? "," : "") << "{\"law\":\"" << flow.spec.law << "\",\"received_bytes\":";
            PrintList(out, flow.received);
            out << ",\"window_packets\":";
            PrintList(out, flow.windows);
            out << "}";
        }
        out << "]}\n";
    }

  private:
    // Both directions of a link, with addresses and without any queue above the device's own.
    NetDeviceContainer Connect(const NodeContainer& ends, uint64_t rate, uint64_t delay_us, uint32_t queue)
    {
        PointToPointHelper link;
        link.DisableFlowControl();
        link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate)));
        link.SetDeviceAttribute("Mtu", UintegerValue(9'000));
        link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(delay_us)));
        link.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, queue)));
        NetDeviceContainer devices = link.Install(ends);
        const Ipv4InterfaceContainer interfaces = m_addresses.Assign(devices);
        m_addresses.NewNetwork();
        m_last_address = interfaces.GetAddress(1);
        for (uint32_t k = 0; k < devices.GetN(); ++k)
        {
            auto control = ends.Get(k)->GetObject<TrafficControlLayer>();
            if (control && control->GetRootQueueDiscOnDevice(devices.Get(k)))
                throw std::logic_error("ns-3 has put a queue discipline above a device without flow control");
            devices.Get(k)->TraceConnectWithoutContext("MacRx", MakeCallback(&Dumbbell::OnHop, this));
        }
        return devices;
    }

    void SetLoss(Ptr<PointToPointNetDevice> far)
    {
        if (!m_spec.scripted.empty())
        {
            auto model = CreateObject<ReceiveListErrorModel>();
            model->SetList(m_spec.scripted);
            far->SetReceiveErrorModel(model);
        }
        else if (m_spec.loss > 0.0)
        {
            auto model = CreateObject<RateErrorModel>();
            model->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
            model->SetRate(m_spec.loss);
            far->SetReceiveErrorModel(model);
        }
    }

    void AddFlow(const FlowSpec& spec)
    {
        NodeContainer hosts;
        hosts.Create(2);
        m_stack.Install(hosts);
        const uint64_t one_way_us = spec.rtt_us / 2;
        if (one_way_us < m_spec.bottleneck_delay_us)
            throw std::invalid_argument("a flow's RTT is less than the bottleneck's");
        const uint64_t rate = m_spec.rate * m_spec.access_factor;
        Connect(NodeContainer(m_routers.Get(0), hosts.Get(0)), rate, one_way_us - m_spec.bottleneck_delay_us, 1u << 20);
        Connect(NodeContainer(m_routers.Get(1), hosts.Get(1)), rate, 0, 1u << 20);

        auto tcp = hosts.Get(0)->GetObject<TcpL4Protocol>();
        tcp->SetAttribute("SocketType", TypeIdValue(LawType(spec.law)));

        auto flow = std::make_unique<Flow>();
        flow->spec = spec;
        flow->segment = m_spec.segment;
        const InetSocketAddress to(m_last_address, 5'001);
        PacketSinkHelper sink("ns3::TcpSocketFactory", to);
        flow->sink = DynamicCast<PacketSink>(sink.Install(hosts.Get(1)).Get(0));
        BulkSendHelper source("ns3::TcpSocketFactory", to);
        source.SetAttribute("SendSize", UintegerValue(m_spec.segment));
        auto applications = source.Install(hosts.Get(0));
        applications.Start(MicroSeconds(spec.start_us));
        flow->source = DynamicCast<BulkSendApplication>(applications.Get(0));
        Simulator::Schedule(MicroSeconds(spec.start_us) + NanoSeconds(1), &Flow::Watch, flow.get());
        m_flows.push_back(std::move(flow));
    }

    void Sample()
    {
        for (auto& flow : m_flows)
            flow->Sample();
    }

    void OnHop(Ptr<const Packet>)
    {
        ++m_hops;
    }

    void OnDrop(Ptr<const Packet>)
    {
        ++m_drops;
    }

    void OnLoss(Ptr<const Packet>)
    {
        ++m_losses;
    }

    template <class T>
    static void PrintList(std::ostream& out, const std::vector<T>& values)
    {
        out << "[";
        for (size_t k = 0; k < values.size(); ++k)
            out << (k ? "," : "") << values[k];
        out << "]";
    }

    Spec m_spec;
    NodeContainer m_routers;
    InternetStackHelper m_stack;
    Ipv4AddressHelper m_addresses;
    Ipv4Address m_last_address;
    std::vector<std::unique_ptr<Flow>> m_flows;
    uint64_t m_hops = 0;
    uint64_t m_drops = 0;
    uint64_t m_losses = 0;
    std::chrono::duration<double> m_wall{};
};

} // namespace

int
main(int argc, char** argv)
{
    try
    {
        const Spec spec = ParseSpec(argc, argv);
        SetDefaults(spec);
        Dumbbell dumbbell(spec);
        dumbbell.Run();
        dumbbell.Print(std::cout);
        Simulator::Destroy();
    }
    catch (const std::exception& error)
    {
        std::cerr << "dumbbell: " << error.what() << "\n";
        return 2;
    }
    return 0;
}
