// SPDX-License-Identifier: Apache-2.0
// URLs of the ZeroMQ plug-in: endpoints, parameters, who binds.
#include "url.h"

#include <gtest/gtest.h>

namespace kvc_zmq {
namespace {

TEST(ZmqUrl, HasAnEndpointAndParameters) {
  Url url;
  std::string error;
  ASSERT_TRUE(parse_url("zmq:tcp://*:5557?replay=tcp://*:5558&hwm=7&linger=0", &url, &error)) << error;
  EXPECT_EQ(url.endpoint, "tcp://*:5557");
  EXPECT_EQ(url.replay, "tcp://*:5558");
  EXPECT_EQ(url.hwm, 7);
  EXPECT_EQ(url.linger_ms, 0);
  EXPECT_TRUE(url.binds);
}

TEST(ZmqUrl, BindsAsTheEngineDoes) {
  const struct {
    const char* text;
    bool binds;
  } cases[] = {{"zmq:tcp://*:1", true},
               {"zmq:tcp://[::]:1", true},
               {"zmq:tcp://0.0.0.0:1", true},
               {"zmq:ipc:///run/kv", true},
               {"zmq:inproc://kv", true},
               {"zmq:tcp://router:1", false},
               {"zmq:tcp://router:1?mode=bind", true},
               {"zmq:ipc:///run/kv?mode=connect", false}};
  for (const auto& c : cases) {
    Url url;
    std::string error;
    ASSERT_TRUE(parse_url(c.text, &url, &error)) << error;
    EXPECT_EQ(url.binds, c.binds) << c.text;
  }
}

TEST(ZmqUrl, RefusesWithAText) {
  const struct {
    const char *text, *says;
  } cases[] = {{"zmq:", "is no endpoint"},
               {"zmq:5557", "\"5557\" is no endpoint"},
               {"zmq:tcp://*:1?", "the parameter \"\" has no value"},
               {"zmq:tcp://*:1?hwm", "the parameter \"hwm\" has no value"},
               {"zmq:tcp://*:1?hwm=", "hwm is \"\"; it is 0 to 1000000"},
               {"zmq:tcp://*:1?hwm=-1", "hwm is \"-1\""},
               {"zmq:tcp://*:1?linger=99999999999999999999", "it is 0 to 1000000"},
               {"zmq:tcp://*:1?mode=both", "mode is \"both\"; it is bind or connect"},
               {"zmq:tcp://*:1?replay=5558", "replay is \"5558\"; it is an endpoint"},
               {"zmq:tcp://*:1?topic=x", "there is no parameter \"topic\""}};
  for (const auto& c : cases) {
    Url url;
    std::string error;
    EXPECT_FALSE(parse_url(c.text, &url, &error)) << c.text;
    EXPECT_NE(error.find(c.says), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace kvc_zmq
