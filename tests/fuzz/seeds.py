"""Small good inputs, one for each thing a parser knows; written by hand."""

from __future__ import annotations

GNMI = (
    '{"name":"s","timestamp":1764460800000000000,"tags":{"interface_name":"Ethernet1",'
    '"source":"leaf1"},"values":{"/interfaces/interface/state/counters/in-octets":"17"}}\n' * 2,
    (
        '{"source":"leaf1","timestamp":1764460800000000000,"prefix":"interfaces/interface[name=e1]",'
        '"updates":[{"Path":"state/counters/in-octets","values":{"state/counters/in-octets":5}}]}\n'
    ),
    "interfaces,name=Ethernet1,source=leaf1 in_octets=17i,out_octets=18i 1764460800000000000\n",
    (
        'update: {\n timestamp: 1764460800000000000\n prefix: { elem: { name: "interfaces" } }\n'
        ' update: { path: { elem: { name: "mtu" } } val: { uint_val: 9000 } }\n}\n'
    ),
    (
        '{"COUNTERS:oid:0x1000000000001":{"type":"hash","value":{"SAI_PORT_STAT_IF_IN_OCTETS":"7"}},'
        '"COUNTERS_PORT_NAME_MAP":{"type":"hash","value":{"Ethernet0":"oid:0x1000000000001"}}}\n'
    ),
    "     Port Rx    PFC0    PFC1\n------------  ------  ------\n   Ethernet0       0     1,2\n",
)
PERFQUERY = """# Port extended counters: Lid 2 port 1 (CapMask: 0x5A00 CapMask2: 0x0000002)
PortSelect:......................1
CounterSelect:...................0x0000
PortXmitData:....................1234567
PortRcvData:.....................10
PortXmitWait:....................42
"""
IBNETDISCOVER = (
    """vendid=0x2c9
devid=0xd2f0
switchguid=0xb8cef603001000c0(b8cef603001000c0)
Switch\t40 "S-b8cef603001000c0"\t\t# "leaf 1" enhanced port 0 lid 4 lmc 0
[1]\t"H-0c42a10300003000"[1](c42a10300003001) \t\t# "gpu1 mlx5_0" lid 31 4xHDR
[2]\t"S-b8cef603001000c1"[7]\t\t# "spine" lid 5 4xNDR

Ca\t1 "H-0c42a10300003000"\t\t# "gpu1 mlx5_0"
[1](c42a10300003001) \t"S-b8cef603001000c0"[1]\t\t# lid 31 lmc 0 "leaf 1" lid 4 4xHDR
""",
    "CA    38  1 0x0c42a1030000301d 4x HDR - SW     4  8 0xb8cef603001000c0 ( 'a' - 'b' )\n",
)
IBQUERYERRORS = """Errors for 0xb8cef603001000c0 "leaf 1"
   GUID 0xb8cef603001000c0 port ALL: [SymbolErrorCounter == 3] [PortXmitWait == 99]
   GUID 0xb8cef603001000c0 port 1: [SymbolErrorCounter == 3] [PortXmitWait == 99]

## Summary: 1 nodes checked, 1 bad nodes found
##          40 ports checked, 1 ports have errors beyond threshold
"""
IBLINKINFO = """Switch: 0xb8cef603001000c0 leaf 1:
           4    1[  ] ==( 4X      53.125 Gbps Active/  LinkUp)==>      31    1[  ] "gpu1" ( )
           4    2[  ] ==(                Down/ Polling)==>             [  ] "" ( )
"""
DB_CSV = """START_NODES
NodeDesc,NumPorts,NodeType,ClassVersion,BaseVersion,SystemImageGUID,NodeGUID,PortGUID
"leaf 1",40,2,1,1,0x1,0x1,0x1
END_NODES

START_PM_INFO
NodeGUID,PortGUID,PortNumber,PortXmitWaitExt
0x1,0x1,1,0x10
END_PM_INFO
"""
IBDIAGNET_PM = """---
Port=1 Lid=0x0001 GUID=0xb8cef603001000c0 Device=54000 Port Name=a/P1
---
port_xmit_wait=0x0000000000000010
port_xmit_data=0xff
"""
UFM = (
    (
        "timestamp,node_guid,port_num,PortXmitWaitExtended,PortXmitDataExtended\n"
        "1764460800000000,0xb8cef603001000c0,1,5,6\n"
    ),
    '[{"node_guid": "0xb8cef603001000c0", "port_num": 1, "PortXmitWaitExtended": 5}]',
)
UFM_PAGE = """# TYPE PortXmitWaitExtended counter
PortXmitWaitExtended{node_guid="0xb8cef603001000c0",port_num="1"} 5 1764460800000
"""
NODE_EXPORTER = """# TYPE node_infiniband_port_data_received_bytes_total counter
node_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"} 1.5e+10
node_ethtool_received_bytes_total{device="eth \\"0\\\\"} 7
DCGM_FI_PROF_NVLINK_TX_BYTES{gpu="0",Hostname="gpu1"} 5
"""
ETHTOOL = """$ ethtool -S eth0
NIC statistics:
     rx_bytes: 18446744073709551615
     rx_prio3_pause: 12
     [0]: rx_pfc_frames: 3
"""
SNMPREC = """1.3.6.1.2.1.1.2.0|6|1.3.6.1.4.1.9.12.3.1.3.1
1.3.6.1.2.1.31.1.1.1.1.1|4x|45746831
1.3.6.1.2.1.31.1.1.1.6.1|70|18446744073709551615
"""
SNMPWALK = """.1.3.6.1.2.1.1.1.0 = STRING: "A switch
of two lines"
.1.3.6.1.2.1.31.1.1.1.6.1 = Counter64: 18446744073709551615
.1.3.6.1.2.1.31.1.1.1.1.1 = Hex-STRING: 45 74 68
"""
COUNTERS = (
    "time,device,port,queue,counter,value\n"
    "1000000000,leaf1,Ethernet1,,rx_bytes,18446744073709551615\n"
    '1000000000,"leaf, 1",Ethernet1,3,rx_pfc_frames,7\n'
    "2000000000,leaf1,Ethernet1,,rx_power_dbm,-3.5\n"
)
MAPPED = (
    "SaveTimeUTC,DeviceName,PortName,InPkts,InOctets,OutPkts,OutOctets\n"
    "1000,leaf1,p1,1,100,2,200\n2000,leaf1,p1,0,0,,5\n"
)
TOPOLOGY = (
    '{"nodes":[{"name":"a","kind":"host","role":"host","technology":"roce"}],"links":[{"a":["a",'
    '"1"],"b":["b","2"],"speed_bps":1e11}],"jobs":[{"name":"j","hosts":["a"]}],"ports":[{"device":'
    '"a","port":"1","rail":3}],"fabric":{"lossless_queues":[3],"ecn":"off","interval_s":1}}'
)
LABELS = '[{"kind":"incast","start":1,"end":2,"causes":[{"device":"a","port":"1"}],"victims":[]}]'
CABLING = (
    'graph "fabric" {\n "leaf1":"swp1" -- "gpu1":"eth0"\n}\n',
    (
        "topology:\n  nodes:\n    leaf1: {kind: ceos}\n  links:\n"
        '    - endpoints: ["leaf1:eth1", "gpu1:eth1"]\n'
    ),
    (
        '{"lldp":{"interface":[{"eth0":{"chassis":{"leaf1":{"id":{"type":"mac","value":"0"}}},'
        '"port":{"id":{"type":"ifname","value":"Ethernet1"}}}}]}}'
    ),
)
JOBS = (
    "jobs:\n  - {name: train, hosts: ['gpu[1-4]'], gpus_per_host: 8}\n",
    "JobId=7 JobName=train\n   JobState=RUNNING NodeList=gpu[001-003,7] TresPerNode=gres:gpu:8\n\n",
    (
        '{"items":[{"metadata":{"labels":{"job-name":"t"}},"spec":{"nodeName":"g"},"status":{"phase":'
        '"Running"}}]}'
    ),
    'kube_pod_info{node="gpu1",created_by_name="train"} 1\n',
)
CONFIG = """interval: 10s
fabrics:
  - name: pod1
    technology: roce
    intent: {lossless_queues: [3], ecn: required}
targets:
  - {collector: snmp, address: 10.0.0.1, name: leaf1, credential: ro}
credentials: {ro: {community: {env: COMMUNITY}}}
exporters: {prometheus: {}}
"""
WEB_CONFIG = """basic_auth_users:
  joe: $2b$04$Vya2HWfXS1LMOk7WEkHzTO9CpbwaMYqEbLk0LmAYHNGKR8e7k0eS6
http_server_config: {headers: {X-Frame-Options: deny}}
rate_limit: {interval: 1s, burst: 5}
"""
