package env

// The variables of a rank. Vars says what each one means.
const (
	KeyRank           = "FPM_RANK"
	KeyWorldSize      = "FPM_WORLD_SIZE"
	KeyLocalRank      = "FPM_LOCAL_RANK"
	KeyLocalWorldSize = "FPM_LOCAL_WORLD_SIZE"
	KeyNodeRank       = "FPM_NODE_RANK"
	KeyNodes          = "FPM_NNODES"
	KeyDPRank         = "FPM_DP_RANK"
	KeyDPSize         = "FPM_DP_SIZE"
	KeyPPRank         = "FPM_PP_RANK"
	KeyPPSize         = "FPM_PP_SIZE"
	KeyPCPRank        = "FPM_PCP_RANK"
	KeyPCPSize        = "FPM_PCP_SIZE"
	KeyTPRank         = "FPM_TP_RANK"
	KeyTPSize         = "FPM_TP_SIZE"
	KeyRendezvous     = "FPM_RENDEZVOUS"
	KeyRunID          = "FPM_RUN_ID"
	KeyTokenFile      = "FPM_TOKEN_FILE"
	KeyStateFile      = "FPM_STATE_FILE"
	KeyJobFile        = "FPM_JOB_FILE"
	KeyRestartCount   = "FPM_RESTART_COUNT"
	KeyLocalGPU       = "FPM_LOCAL_GPU"
	KeyGPUSharers     = "FPM_GPU_SHARERS"

	KeyJoinTimeout = "FPM_JOIN_TIMEOUT"
	KeyIface       = "FPM_IFACE"
	KeyTLS         = "FPM_TLS"
	KeyCheck       = "FPM_CHECK"
	KeyToken       = "FPM_TOKEN"
	KeyIdentity    = "FPM_IDENTITY"

	KeyRequireSecret = "FPM_REQUIRE_SECRET"
	KeyMungeSocket   = "FPM_MUNGE_SOCKET"
)

// The variables that torchrun gives to its workers.
const (
	TorchRank           = "RANK"
	TorchWorldSize      = "WORLD_SIZE"
	TorchLocalRank      = "LOCAL_RANK"
	TorchLocalWorldSize = "LOCAL_WORLD_SIZE"
	TorchGroupRank      = "GROUP_RANK"
	TorchGroupWorldSize = "GROUP_WORLD_SIZE"
	TorchRoleName       = "ROLE_NAME"
	TorchRoleRank       = "ROLE_RANK"
	TorchRoleWorldSize  = "ROLE_WORLD_SIZE"
	TorchMasterAddr     = "MASTER_ADDR"
	TorchMasterPort     = "MASTER_PORT"
	TorchRunID          = "TORCHELASTIC_RUN_ID"
	TorchRestartCount   = "TORCHELASTIC_RESTART_COUNT"
	TorchMaxRestarts    = "TORCHELASTIC_MAX_RESTARTS"
)

// Var describes one variable.
type Var struct {
	Name    string
	Type    string // int, string, path, host:port, duration
	Default string // what a rank assumes when it is not set
	SetBy   string // "fpmrun", or "user" for a variable that fpmrun passes through unless a flag sets it
	Meaning string
}

const (
	byLauncher = "fpmrun"
	byUser     = "user"
)

// Vars lists every variable, in the order in which Environ writes them, the user's last.
var Vars = []Var{
	{KeyRank, "int", "identity of another launcher, else 0", byLauncher, "world rank, 0 to FPM_WORLD_SIZE-1"},
	{KeyWorldSize, "int", "1", byLauncher, "ranks in the job"},
	{KeyLocalRank, "int", "0", byLauncher, "rank among those on this node"},
	{KeyLocalWorldSize, "int", "1", byLauncher, "ranks on this node"},
	{KeyNodeRank, "int", "0", byLauncher, "this node's number"},
	{KeyNodes, "int", "1", byLauncher, "nodes of the job"},
	{KeyDPRank, "int", "from the rank", byLauncher, "data-parallel rank; set with FPM_DP_SIZE"},
	{KeyDPSize, "int", "the program's own choice", byLauncher, "data-parallel ranks; the four sizes are set when fpmrun was given a topology"},
	{KeyPPRank, "int", "from the rank", byLauncher, "pipeline-parallel rank"},
	{KeyPPSize, "int", "the program's own choice", byLauncher, "pipeline-parallel ranks"},
	{KeyPCPRank, "int", "from the rank", byLauncher, "prefill-context-parallel rank"},
	{KeyPCPSize, "int", "the program's own choice", byLauncher, "prefill-context-parallel ranks"},
	{KeyTPRank, "int", "from the rank", byLauncher, "tensor-parallel rank"},
	{KeyTPSize, "int", "the program's own choice", byLauncher, "tensor-parallel ranks"},
	{KeyRendezvous, "host:port", "none", byLauncher, "where rank 0 listens and the others dial; [v6]:port for an IPv6 address"},
	{KeyRunID, "string", "none", byLauncher, "name of this launch, fresh each time"},
	{KeyTokenFile, "path", "none", byLauncher, "file with the job's secret, mode 0600"},
	{KeyStateFile, "path", "none", byLauncher, "the state pages of this host's ranks"},
	{KeyJobFile, "path", "none", byLauncher, "the job page: which ranks have exited"},
	{KeyRestartCount, "int", "0", byLauncher, "how often the gang was started again before this launch"},
	{KeyLocalGPU, "int", "the local rank", byLauncher, "index of the rank's own GPU among those it sees; 0, set when fpmrun gave it one"},
	{KeyGPUSharers, "int", "1", byLauncher, "ranks that use this rank's GPU, itself among them; set with FPM_LOCAL_GPU"},
	{TorchRank, "int", "", byLauncher, "FPM_RANK"},
	{TorchWorldSize, "int", "", byLauncher, "FPM_WORLD_SIZE"},
	{TorchLocalRank, "int", "", byLauncher, "FPM_LOCAL_RANK"},
	{TorchLocalWorldSize, "int", "", byLauncher, "FPM_LOCAL_WORLD_SIZE"},
	{TorchGroupRank, "int", "", byLauncher, "FPM_NODE_RANK"},
	{TorchGroupWorldSize, "int", "", byLauncher, "FPM_NNODES"},
	{TorchRoleName, "string", "", byLauncher, "always default"},
	{TorchRoleRank, "int", "", byLauncher, "FPM_RANK"},
	{TorchRoleWorldSize, "int", "", byLauncher, "FPM_WORLD_SIZE"},
	{TorchMasterAddr, "string", "", byLauncher, "host of torch's store; set when the launcher reserved a port for it"},
	{TorchMasterPort, "int", "", byLauncher, "port of torch's store, another one than FPM_RENDEZVOUS"},
	{TorchRunID, "string", "", byLauncher, "FPM_RUN_ID"},
	{TorchRestartCount, "int", "", byLauncher, "FPM_RESTART_COUNT"},
	{TorchMaxRestarts, "int", "", byLauncher, "restarts allowed"},
	{KeyJoinTimeout, "duration", "120s; 10m under Kubernetes", byUser, "how long ranks may take to find each other; --join-timeout"},
	{KeyIface, "string", "route to the rendezvous", byUser, "interface name or CIDR that the ranks meet on; --iface"},
	{KeyTLS, "string", "auto", byUser, "which connections between ranks are encrypted: auto (those between hosts), off or on; --tls"},
	{KeyCheck, "int", "0", byUser, "1: every collective operation first compares what the ranks called"},
	{KeyToken, "string", "none", byUser, "the job's secret itself, where no file can be given"},
	{KeyIdentity, "string", "innermost launcher wins", byUser, "forces one source of identity: fpmrun, openmpi, mpich, torchrun, slurm, kubernetes or none"},
	{KeyRequireSecret, "int", "0", byUser, "1: ranks that would only have the launch's public name to meet by do not"},
	{KeyMungeSocket, "path", "/run/munge/munge.socket.2", byUser, "socket of munged, by which tasks of a Slurm step agree on a secret"},
}
