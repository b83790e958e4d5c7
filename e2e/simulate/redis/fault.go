package redis

// Fault is a failure of the server.
type Fault uint8

// Failures of the server. With Works the server replies correctly.
const (
	Works        Fault = iota
	Slow               // the server replies late, but within the client's timeout
	Hangs              // the server accepts commands and never replies
	Cuts               // the server closes the connection in the middle of a reply
	Loading            // the server replies that it loads its data
	WrongType          // the server replies that the key has a value of another type
	Unauthorized       // the server replies that the client is not authenticated
	Moved              // the server replies that another server of the Redis cluster has the key
	Huge               // the server announces an array of 10^11 elements
	Unusual            // the server replies with a string instead of a number
	Negative           // the server replies with a negative number
	NoLag              // the server replies that the lag of a consumer group is unknown
	Deleted            // the keys are deleted
	FailedOver         // the connections are closed, and the new server has no data
	Detached           // the server is a replica without a connection to its master, so its lengths do not change
	Restarted          // the server closes the connections, refuses new connections for a while, and then replies that it loads its data
	numFaults
)

// NumFaults is the number of failures. Works is not a failure, so the failures have the values 1 to NumFaults.
const NumFaults = int(numFaults) - 1

var faultNames = [numFaults]string{
	"works", "is slow", "hangs", "closes connections in the middle of replies", "loads its data", "has keys of another type",
	"requires authentication", "redirects to another server", "announces huge replies", "replies with strings",
	"replies with negative numbers",
	"does not know the lag of its consumer groups", "lost its keys", "failed over to a server without data", "is a replica without a master",
	"restarts",
}

func (f Fault) String() string { return faultNames[f] }

// errorReply returns the error that the failure causes for every command that reads a key, or "" if the server replies with a length.
func (f Fault) errorReply() string {
	switch f {
	case Loading:
		return "-LOADING Redis is loading the dataset in memory\r\n"
	case WrongType:
		return "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	case Unauthorized:
		return "-NOAUTH Authentication required.\r\n"
	case Moved:
		return "-MOVED 3999 10.0.0.2:6379\r\n"
	case Huge:
		return "*100000000000\r\n"
	case Unusual:
		return "$4\r\nnone\r\n"
	case Negative:
		return ":-1\r\n"
	}
	return ""
}

// hasKeys reports whether the server has the keys of the queues.
func (f Fault) hasKeys() bool { return f != Deleted && f != FailedOver }
